package event

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// Field is a field that a filter can compare.
type Field struct {
	Name   string
	Text   bool
	Values func() []Value // names of its values; nil: none
	Length string         // the field with the length of an array of words that is text; "" for most
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

var (
	filterWord     = regexp.MustCompile(`^\w+`)
	filterFunction = regexp.MustCompile(`^\.\w+`)
	filterOp       = regexp.MustCompile(`^(==|!=|<=|>=|<|>|&|~)`)
	filterNumber   = regexp.MustCompile(`^-?(0[xX][0-9a-fA-F]+|[0-9]+)$`)
	filterValue    = regexp.MustCompile(`^("[^"]*"|'[^']*'|CPUS\{[^}]*\}|[^\s&|()"']+)`)
)

// FilterSyntaxError means that a filter is wrong, and why.
type FilterSyntaxError struct{ Msg string }

func (e *FilterSyntaxError) Error() string { return e.Msg }

func badFilter(format string, args ...any) error {
	return &FilterSyntaxError{fmt.Sprintf(format, args...)}
}

// ParseFilter parses a filter in the kernel's language: comparisons of a field with a value,
// &&, ||, ! and parentheses (Documentation/trace/events.rst). A value can also be one of the
// field's names for values. numeric is the filter in the kernel's syntax, with numbers for
// these names. The error is a *FilterSyntaxError.
func ParseFilter(text string, fields []Field) (f *Filter, numeric string, err error) {
	p := filterParser{text: text, rest: text, fields: append(fields[:len(fields):len(fields)], genericFields...)}
	if f, err = p.either(); err != nil {
		return nil, "", err
	}
	switch {
	case strings.HasPrefix(p.rest, ")"):
		return nil, "", badFilter("a ) has no (")
	case p.rest != "":
		return nil, "", badFilter("&& or || is missing before %q", p.rest)
	}
	return f, p.numeric.String() + text[p.copied:], nil
}

type filterParser struct {
	text, rest string
	fields     []Field
	numeric    strings.Builder
	copied     int // bytes of text that are copied to numeric
	depth      int
}

// maxFilterDepth limits nested parentheses.
const maxFilterDepth = 100

func (p *filterParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// take consumes a word at the beginning.
func (p *filterParser) take(word string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, word)
	if ok {
		p.rest = rest
		p.space()
	}
	return ok
}

// match consumes a match of a pattern, "" if there is none.
func (p *filterParser) match(re *regexp.Regexp) string {
	p.space()
	m := re.FindString(p.rest)
	p.rest = p.rest[len(m):]
	return m
}

// either parses operands of ||, which has lower precedence than &&.
func (p *filterParser) either() (*Filter, error) { return p.operands("||", p.both) }
func (p *filterParser) both() (*Filter, error)   { return p.operands("&&", p.operand) }

func (p *filterParser) operands(op string, operand func() (*Filter, error)) (*Filter, error) {
	left, err := operand()
	for err == nil && p.take(op) {
		var right *Filter
		right, err = operand()
		left = &Filter{Op: op, Left: left, Right: right}
	}
	p.space()
	return left, err
}

// operand parses a comparison, or an expression in parentheses.
func (p *filterParser) operand() (*Filter, error) {
	if p.depth++; p.depth > maxFilterDepth {
		return nil, badFilter("more than %d nested parentheses", maxFilterDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("!"):
		f, err := p.operand()
		return &Filter{Op: "!", Left: f}, err
	case p.take("("):
		f, err := p.either()
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			if p.rest != "" {
				return nil, badFilter("&& or || is missing before %q", p.rest)
			}
			return nil, badFilter("a ( has no )")
		}
		return f, nil
	}
	return p.comparison()
}

// comparison parses FIELD OP VALUE.
func (p *filterParser) comparison() (*Filter, error) {
	name := p.match(filterWord)
	if name == "" {
		if p.rest == "" {
			return nil, badFilter("a comparison (FIELD == VALUE) is missing at the end")
		}
		return nil, badFilter("a comparison (FIELD == VALUE) is missing before %q", p.rest)
	}
	field, ok := p.field(name)
	if !ok {
		return nil, p.unknown(name)
	}
	if field.Length != "" {
		return nil, badFilter("%s has a length instead of an end, so the kernel cannot compare it; it can compare %s",
			name, field.Length)
	}
	f := &Filter{Field: name, Special: p.match(filterFunction)}
	f.IsText = field.Text || f.Special == ".ustring"
	f.Op = p.match(filterOp)
	switch {
	case f.Op == "":
		return nil, badFilter("a comparison is missing after %s: there are == != < <= > >= &, and for text == != ~",
			name)
	case f.IsText && f.Op != "==" && f.Op != "!=" && f.Op != "~":
		return nil, badFilter("%s is text, which %s cannot compare: there are == != and ~, a glob", name, f.Op)
	case !f.IsText && f.Op == "~":
		return nil, badFilter("%s is a number, which ~ cannot compare: there are == != < <= > >= &", name)
	}
	value := p.match(filterValue)
	if value == "" {
		return nil, badFilter("a value is missing after %s %s", name, f.Op)
	}
	return f, p.value(f, field, value)
}

// value sets the value that a field is compared with, which has just been consumed.
func (p *filterParser) value(f *Filter, field Field, value string) error {
	f.Text = value
	if value[0] == '"' || value[0] == '\'' {
		f.Text = value[1 : len(value)-1]
	}
	switch {
	case f.IsText:
		return nil
	case f.Special != "":
		return nil
	case strings.HasPrefix(value, "CPUS{"):
		f.Special = value
		return nil
	case filterNumber.MatchString(value):
		return f.number(value)
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
	if len(names) == 0 {
		return badFilter("%s is a number, but %s is not", field.Name, value)
	}
	if l := suggest.Names(f.Text, names); len(l) > 0 {
		return badFilter("%s has no value %s: did you mean %s?", field.Name, f.Text, strings.Join(l, ", "))
	}
	if len(names) > maxValues {
		return badFilter("%s has no value %s, but %d others, such as %s", field.Name, f.Text, len(names),
			strings.Join(names[:3], ", "))
	}
	return badFilter("%s has no value %s\nIts values are: %s", field.Name, f.Text, strings.Join(names, " "))
}

// maxValues is the number of values that an error lists.
const maxValues = 100

func (f *Filter) number(s string) (err error) {
	if s[0] == '-' {
		var n int64
		n, err = strconv.ParseInt(s, 0, 64)
		f.Number = uint64(n)
	} else {
		f.Number, err = strconv.ParseUint(s, 0, 64)
	}
	if err != nil {
		return badFilter("%s is not a number of 64 bits", s)
	}
	return nil
}

// replace replaces the name of a value that has just been consumed by its number.
func (p *filterParser) replace(name, number string) {
	end := len(p.text) - len(p.rest)
	p.numeric.WriteString(p.text[p.copied:end-len(name)] + number)
	p.copied = end
}

func (p *filterParser) field(name string) (Field, bool) {
	for _, f := range p.fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

func (p *filterParser) unknown(name string) error {
	var names []string
	for _, f := range p.fields[:len(p.fields)-len(genericFields)] {
		names = append(names, f.Name)
	}
	s := "there is no field " + name
	if l := suggest.Names(name, names); len(l) > 0 {
		s += ": did you mean " + strings.Join(l, ", ") + "?"
	}
	return badFilter("%s\nIts fields are: %s", s, strings.Join(names, " "))
}
