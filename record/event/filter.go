package event

import (
	"strconv"
	"strings"

	"gperf/format/tracepoint"
	"gperf/internal/suggest"
)

// Field is a field that a filter can compare.
type Field struct {
	Name   string
	Text   bool
	Values func() []Value // names of its values; nil: none
	Length string         // the field with the length of an array of words that is text; "" for most
	// Of is the field whose number Values name, for "syscall" of "id"; "" for the field itself. Filters compare the
	// names alone, as when a recording is read. Partial means that not all samples have a name.
	Of      string
	Partial bool
}

// Value is a name for a number: of an enumeration, or of a flag.
type Value struct {
	Name   string
	Number int64
}

// genericFields are the fields that every event has in addition to the fields of its format
// (trace_define_generic_fields of the kernel).
var genericFields = []Field{{Name: "CPU"}, {Name: "cpu"}, {Name: "COMM", Text: true}, {Name: "comm", Text: true},
	{Name: "stacktrace"}, {Name: "STACKTRACE"}}

// Filter is a filter's expression. Op is "&&", "||" or "!", or a comparison of a field
// with a value: "==", "!=", "<", "<=", ">", ">=", "&", "~".
type Filter struct {
	Op          string
	Left, Right *Filter // the operands; "!" has Left only

	Field   string // field of a comparison
	IsText  bool
	Text    string // value to compare with
	Number  uint64 // the value as a number
	Special string // syntax that only the kernel's filters support: ".function", "CPUS{0-3}"
}

// ParseFilter parses a filter in the kernel's language, see tracepoint.ParseFilter. A value can also be one of the
// field's names for values, or have a unit. numeric is the filter in the kernel's syntax, with numbers for
// these names. The error is a *tracepoint.FilterError.
func ParseFilter(text string, fields []Field) (f *Filter, numeric string, err error) {
	parsed, err := tracepoint.ParseFilter(text)
	if err != nil {
		return nil, "", err
	}
	p := filterParser{text: text, fields: append(fields[:len(fields):len(fields)], genericFields...)}
	if f, err = p.filter(parsed); err != nil {
		return nil, "", err
	}
	return f, p.numeric.String() + text[p.copied:], nil
}

// filterParser finds the fields and values of a filter.
type filterParser struct {
	text    string
	fields  []Field
	numeric strings.Builder
	copied  int // bytes of text that are copied to numeric
}

func (p *filterParser) filter(n *tracepoint.Filter) (f *Filter, err error) {
	f = &Filter{Op: n.Op}
	switch n.Op {
	case "!":
		f.Left, err = p.filter(n.Left)
	case "&&", "||":
		if f.Left, err = p.filter(n.Left); err == nil {
			f.Right, err = p.filter(n.Right)
		}
	default:
		return p.comparison(n)
	}
	return f, err
}

func (p *filterParser) comparison(n *tracepoint.Filter) (*Filter, error) {
	name := n.Field.Text
	field, ok := p.field(name)
	if !ok {
		return nil, p.unknown(n.Field)
	}
	if field.Length != "" {
		return nil, n.Field.Wrong(p.text, "%s has a length instead of an end, so the kernel cannot compare it; "+
			"it can compare %s", name, field.Length)
	}
	f := &Filter{Op: n.Op, Field: name, Text: n.Value.Text, Special: n.Special}
	if field.Of != "" {
		f.Field = field.Of
		p.replace(n.Field, field.Of)
	}
	f.IsText = field.Text || f.Special == ".ustring"
	if err := n.CheckOperator(p.text, f.IsText || field.Of != "" && f.Op != "~"); err != nil {
		return nil, err
	}
	if f.Op == "!=" && field.Partial {
		return nil, n.Field.Wrong(p.text, "%s: the kernel cannot leave out samples without %[1]s: use == or %s",
			name, field.Of)
	}
	return f, p.value(f, field, n.Value)
}

// value sets the number that a field is compared with.
func (p *filterParser) value(f *Filter, field Field, value tracepoint.FilterWord) error {
	if f.IsText || f.Special != "" {
		return nil
	}
	n, ok, err := value.Number()
	switch {
	case err != nil:
		return value.Wrong(p.text, "%v", err)
	case ok && field.Of == "":
		if f.Number = n; value.HasUnit() {
			p.replace(value, strconv.FormatInt(int64(n), 10)) // the kernel knows no units
		}
		return nil
	}
	var names []string
	if field.Values != nil {
		for _, v := range field.Values() {
			if v.Name == f.Text {
				f.Number = uint64(v.Number)
				p.replace(value, strconv.FormatInt(v.Number, 10))
				return nil
			}
			names = append(names, v.Name)
		}
	}
	return p.unknownValue(field.Name, value, names)
}

func (p *filterParser) unknownValue(field string, value tracepoint.FilterWord, names []string) error {
	if len(names) == 0 {
		return value.Wrong(p.text, "%s is a number, but %s is not", field, p.text[value.At:value.End])
	}
	if l := suggest.Names(value.Text, names); len(l) > 0 {
		return value.Wrong(p.text, "%s has no value %s%s", field, value.Text, suggest.DidYouMean(l))
	}
	if len(names) > maxValues {
		return value.Wrong(p.text, "%s has no value %s, but %d others, such as %s", field, value.Text, len(names),
			strings.Join(names[:3], ", "))
	}
	err := value.Wrong(p.text, "%s has no value %s", field, value.Text)
	err.More = "Its values are: " + strings.Join(names, " ")
	return err
}

// maxValues is the number of values that an error lists.
const maxValues = 100

// replace replaces a word for the kernel, which knows no names.
func (p *filterParser) replace(word tracepoint.FilterWord, with string) {
	p.numeric.WriteString(p.text[p.copied:word.At] + with)
	p.copied = word.End
}

func (p *filterParser) field(name string) (Field, bool) {
	for _, f := range p.fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// readingKeys are the keys of filters that neither the kernel nor a BPF program can compare, with the flag of gperf
// record that selects the same samples, if there is one.
var readingKeys = map[string]string{
	"pid": "-p PID", "tid": "-t TID", "cgroup": "-G PATH", "unit": "--unit NAME", "container": "--container NAME",
	"pod": "--pod NAME", "duration": "min=TIME of spans, --off-cpu-thresh MS of waits",
	"flow": pcapHost, "src": pcapHost, "dst": pcapHost, "peer": pcapHost, "saddr": pcapHost, "daddr": pcapHost,
	"dso": "", "symbol": "", "stack": "", "time": "", "event": "", "period": "", "kind": "",
}

// pcapHost is the flag for the addresses of packets.
const pcapHost = "--packet 'host ADDRESS and port N'"

func (p *filterParser) unknown(name tracepoint.FilterWord) error {
	var names []string
	for _, f := range p.fields[:len(p.fields)-len(genericFields)] {
		names = append(names, f.Name)
	}
	near := suggest.Names(name.Text, names)
	err := name.Wrong(p.text, "there is no field %s%s", name.Text, suggest.DidYouMean(near))
	if flag, ok := readingKeys[name.Text]; ok {
		err.Msg = name.Text + " is known only when a recording is read: gperf report and script have --filter, too"
		if flag != "" {
			err.Msg += "; when recording, " + flag + " selects by it"
		}
	}
	err.More = "Its fields are: " + strings.Join(names, " ")
	return err
}
