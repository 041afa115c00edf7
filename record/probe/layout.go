package probe

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gperf/format/tracepoint"
)

// Layout is where the samples of a raw tracepoint have what in their raw data.
type Layout struct {
	Size   int      // bytes before dynamic data
	Values []Placed // what a program reads
	// Of the kernel's own tracepoint, if samples have its fields: its number, the bytes
	// of its fixed fields, and where those fields are that locate dynamic data.
	OwnID   uint64
	OwnSize int
	Dynamic []int

	raw         *Raw
	fields      []formatField
	text, exprs string // of the print format
}

// Placed is a fetcharg, and where its value goes.
type Placed struct {
	Fetch string
	At    int
}

// maxFixedOwn bounds the fixed fields of a tracepoint; the largest of Linux 6.18 has 300 bytes.
const maxFixedOwn = 1024

// Layout lays out the fields of the samples.
func (r *Raw) Layout() (*Layout, error) {
	l := &Layout{Size: CommonSize, raw: r}
	if r.Own == nil {
		for i := range r.Args {
			l.argument(i, &r.Args[i])
		}
	} else if err := l.own(r.Own); err != nil {
		return nil, fmt.Errorf("tracepoint %s:%s: %w", r.Own.System, r.Name, err)
	}
	for _, a := range r.Values {
		if err := l.value(a); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// place gives a field its place: the next multiple of 8 bytes.
func (l *Layout) place(f formatField, fetch string) {
	const align = 8
	f.offset = (l.Size + align - 1) / align * align
	l.Size = f.offset + (f.size+align-1)/align*align
	l.fields = append(l.fields, f)
	l.Values = append(l.Values, Placed{fetch, f.offset})
}

// show adds a value to the print format.
func (l *Layout) show(name, sign, verb, expr string) {
	if l.text != "" {
		l.text += " "
	}
	l.text += name + sign + verb
	l.exprs += ", " + expr
}

// argument adds an argument of the tracepoint. A program has it in 8 bytes.
func (l *Layout) argument(i int, a *RawArg) {
	l.place(formatField{typ: a.Type, name: a.Name, size: a.Size, signed: a.Signed}, fmt.Sprintf("$arg%d", i+1))
	rec := "REC->" + a.Name
	switch {
	case a.Shown == AsEnum && len(a.Values) > 0 && len(a.Values) <= maxShownValues:
		l.show(a.Name, ": ", "%s", a.symbolic(rec)) // as in skb:kfree_skb
	case a.Shown == AsFunction:
		l.show(a.Name, "=", "%ps", rec)
	case a.Shown == AsCode:
		l.show(a.Name, "=", "%pS", rec)
	case a.Shown == AsAddress:
		l.show(a.Name, "=", "0x%lx", rec)
	case a.Signed:
		l.show(a.Name, "=", "%"+lengths[a.Size]+"d", rec)
	default:
		l.show(a.Name, "=", "%"+lengths[a.Size]+"u", rec)
	}
}

// lengths are printf's words for the sizes of numbers. Without the short ones, readers
// show a negative number of one or two bytes as a positive one.
var lengths = map[int]string{1: "hh", 2: "h", 4: "", 8: "l"}

// maxShownValues bounds the names of an enumeration in a format.
const maxShownValues = 500

// symbolic shows an enumeration by name. Print formats know unsigned numbers only.
func (a *RawArg) symbolic(expr string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "__print_symbolic(%s", expr)
	shift := 64 - 8*a.Size
	for _, v := range a.Values {
		fmt.Fprintf(&b, ", { %d, %q }", uint64(v.Number)<<shift>>shift, v.Name)
	}
	b.WriteString(")")
	return b.String()
}

var fetchTypeWord = regexp.MustCompile(`^(?:([usx])(8|16|32|64)|(char)|(symbol)|(u?string)|b\d+@\d+/(8|16|32|64))(?:\[(\d+)\])?$`)

// value adds a value, which the text shows as the kernel shows those of probes.
func (l *Layout) value(a Arg) error {
	typ := "x64"
	if i := strings.LastIndexByte(a.Fetch, ':'); i >= 0 {
		typ = a.Fetch[i+1:]
	}
	m := fetchTypeWord.FindStringSubmatch(typ)
	if m == nil {
		return fmt.Errorf("argument %s=%s: tracepoints have no type %s", a.Name, a.Fetch, typ)
	}
	f := formatField{name: a.Name}
	var verb string
	rec := "REC->" + a.Name
	switch {
	case m[5] != "":
		f.typ, f.size = "__data_loc char[]", 4
		l.place(f, a.Fetch)
		l.show(a.Name, "=", `\"%s\"`, "__get_str("+a.Name+")")
		return nil
	case m[3] != "":
		f.typ, f.size, verb = "u8", 1, "'%c'"
	case m[4] != "":
		f.typ, f.size, verb = "u64", 8, "%pS"
	case m[6] != "":
		f.typ, verb = "u"+m[6], "%u"
		f.size, _ = strconv.Atoi(m[6])
		f.size /= 8
	default:
		f.signed = m[1] == "s"
		f.typ = map[bool]string{true: "s", false: "u"}[f.signed] + m[2]
		f.size, _ = strconv.Atoi(m[2])
		f.size /= 8
		verb = map[string]string{"u": "%", "s": "%", "x": "0x%"}[m[1]] + lengths[f.size] + map[string]string{"u": "u", "s": "d", "x": "x"}[m[1]]
	}
	if a.Float {
		f.typ = map[int]string{4: "float", 8: "double"}[f.size]
	}
	if m[7] == "" {
		l.place(f, a.Fetch)
		l.show(a.Name, "=", verb, rec)
		return nil
	}
	n, err := strconv.Atoi(m[7])
	if err != nil || n < 1 || n > maxArray {
		return fmt.Errorf("argument %s=%s: an array has 1 to %d elements", a.Name, a.Fetch, maxArray)
	}
	var exprs []string
	for i := range n {
		exprs = append(exprs, fmt.Sprintf("%s[%d]", rec, i))
	}
	f.name, f.size = fmt.Sprintf("%s[%d]", f.name, n), n*f.size
	l.place(f, a.Fetch)
	l.show(a.Name, "=", "{"+strings.TrimSuffix(strings.Repeat(verb+",", n), ",")+"}", strings.Join(exprs, ", "))
	return nil
}

// own makes room for the fields of the kernel's own tracepoint.
func (l *Layout) own(o *Own) error {
	f, err := tracepoint.Parse(o.Format, o.System)
	if err != nil {
		return err
	}
	l.OwnID = uint64(f.ID)
	for i := range f.Fields {
		fd := &f.Fields[i]
		switch {
		case fd.Relative:
			return fmt.Errorf("its field %s is relative to another, which is not supported together with arguments", fd.Name)
		case fd.Dynamic:
			l.Dynamic = append(l.Dynamic, fd.Offset)
		}
		l.Size = max(l.Size, fd.Offset+fd.Size)
	}
	if l.OwnSize = l.Size; l.Size > maxFixedOwn {
		return fmt.Errorf("its fields have %d bytes, more than %d", l.Size, maxFixedOwn)
	}
	return nil
}

// Format describes the raw data, as the event of that number.
func (l *Layout) Format(id uint16) []byte {
	if l.raw.Own == nil {
		return formatText(l.raw.Name, id, l.fields, `"`+l.text+`"`+l.exprs)
	}
	head, print, _ := bytes.Cut(l.raw.Own.Format, []byte("\nprint fmt:"))
	var b bytes.Buffer
	for line := range bytes.Lines(head) {
		if bytes.HasPrefix(line, []byte("ID:")) {
			line = fmt.Appendf(nil, "ID: %d\n", id)
		}
		b.Write(line)
	}
	for _, f := range l.fields {
		b.WriteString(f.String())
	}
	fmt.Fprintf(&b, "\nprint fmt:%s\n", appendPrint(strings.TrimRight(string(print), "\n"), l.text, l.exprs))
	return b.Bytes()
}

// formatString is the string literal that a print format begins with, up to its last quote.
var formatString = regexp.MustCompile(`^\s*(?:"(?:[^"\\]|\\.)*"\s*)*"(?:[^"\\]|\\.)*`)

// appendPrint adds conversions and their expressions to a print format.
func appendPrint(print, text, exprs string) string {
	i := len(formatString.FindString(print))
	return print[:i] + " " + text + print[i:] + exprs
}
