package kernel

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/record/probe/args"
	"gperf/record/tracefs"
)

// Layout describes the raw data of a raw tracepoint's samples.
type Layout struct {
	Size   int      // bytes before dynamic data
	Values []Placed // values that a program reads
	// Of the kernel's own tracepoint, if samples include the tracepoint's fields: number, size of the fixed fields
	// in bytes, and positions of the __data_loc fields.
	OwnID   uint64
	OwnSize int
	Dynamic []int
	// Of the packet, if samples have one: the position, and the positions of the __data_loc fields of the texts
	// that gperf adds, and of the packet's first bytes; 0: none.
	PacketAt, BytesAt int
	Texts             []Text
	// Of the verdict, if samples have one: the position, and the positions of the __data_loc of the names of the
	// table and the chain.
	VerdictAt, TableAt, ChainAt int

	raw         *Raw
	fields      []tracefs.FormatField
	text, exprs string // of the print format
}

// Text is a field of package packet's Texts.
type Text struct {
	Name string
	At   int // position of the __data_loc
}

// Placed is a fetcharg, and the position of the value.
type Placed struct {
	Fetch string
	At    int
}

// maxFixedOwn limits the size of a tracepoint's fixed fields; the largest in Linux 6.18 is 300 bytes long.
const maxFixedOwn = 1024

// Layout lays out the fields of the samples.
func (r *Raw) Layout() (*Layout, error) {
	l := &Layout{Size: tracefs.CommonSize, raw: r}
	if r.Own == nil {
		for i := range r.Args {
			l.argument(i, &r.Args[i])
		}
	} else if err := l.own(r.Own); err != nil {
		return nil, fmt.Errorf("tracepoint %s:%s: %w", r.Own.System, r.Name, err)
	}
	if r.Drops != nil {
		l.program()
	}
	if r.Verdict != nil {
		l.verdict()
	}
	if r.Packet != nil {
		l.packet(r.Packet, r.ownFields())
	}
	if r.Verdict != nil && r.Verdict.RuleText {
		l.addText(packet.RuleText)
	}
	for _, a := range r.Values {
		if err := l.value(a); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// place assigns a position to a field that a program reads.
func (l *Layout) place(f tracefs.FormatField, fetch string) {
	f.Offset = l.reserve(f.Size)
	l.fields = append(l.fields, f)
	l.Values = append(l.Values, Placed{fetch, f.Offset})
}

// reserve returns the position of the next so many bytes, a multiple of 8.
func (l *Layout) reserve(size int) int {
	const align = 8
	at := (l.Size + align - 1) / align * align
	l.Size = at + (size+align-1)/align*align
	return at
}

// packet adds the fields of a packet, except fields that the tracepoint already contains. Those that are not shown
// can be sorted and filtered by.
func (l *Layout) packet(p *Packet, own []args.Arg) {
	l.PacketAt = l.reserve(packet.Size)
	has := func(name string) bool {
		return slices.ContainsFunc(own, func(a args.Arg) bool { return a.Name == name })
	}
	verbs := map[string][2]string{}
	for _, f := range packet.Numbers {
		name := f.BaseName()
		if has(name) {
			continue
		}
		l.field(&f, l.PacketAt)
		verbs[name] = [2]string{f.Verb, f.Expr()}
	}
	for _, name := range p.Shown {
		if packet.IsText(name) && !has(name) {
			l.addText(name)
			continue
		}
		if v, ok := verbs[name]; ok {
			l.show(name, "=", v[0], v[1])
		}
	}
	if p.Snap > 0 {
		l.BytesAt = l.dynamic(packet.Bytes, "u8")
	}
}

// verdict adds the fields of a verdict.
func (l *Layout) verdict() {
	l.VerdictAt = l.reserve(packet.VerdictSize)
	l.addText(packet.VerdictText)
	for _, f := range packet.VerdictFields {
		l.field(&f, l.VerdictAt)
		if name := f.BaseName(); name == packet.Hook {
			l.show(name, "=", f.Verb, "REC->"+name)
		}
	}
	l.TableAt, l.ChainAt = l.dynamic(packet.Table, "char"), l.dynamic(packet.Chain, "char")
}

// field adds a field of package packet, whose struct is at this position.
func (l *Layout) field(f *packet.Field, at int) {
	l.fields = append(l.fields, tracefs.FormatField{Type: f.Type, Name: f.Name, Offset: at + f.At, Size: f.Size,
		Signed: f.Signed})
}

// dynamic adds an array of dynamic length, and returns the position of the __data_loc.
func (l *Layout) dynamic(name, typ string) int {
	at := l.reserve(4)
	l.fields = append(l.fields, tracefs.FormatField{Type: "__data_loc " + typ + "[]", Name: name, Offset: at, Size: 4})
	return at
}

// addText adds a text that gperf makes, and prints it.
func (l *Layout) addText(name string) {
	l.Texts = append(l.Texts, Text{name, l.dynamic(name, "char")})
	l.show(name, "=", "%s", "__get_str("+name+")")
}

// show adds a value to the print format.
func (l *Layout) show(name, sign, verb, expr string) {
	if l.text != "" {
		l.text += " "
	}
	l.text += name + sign + verb
	l.exprs += ", " + expr
}

// argument adds an argument of the tracepoint. A program receives it in 8 bytes.
func (l *Layout) argument(i int, a *RawArg) {
	if a.Shown == Omitted {
		return
	}
	l.place(tracefs.FormatField{Type: a.Type, Name: a.Name, Size: a.Size, Signed: a.Signed}, fmt.Sprintf("$arg%d", i+1))
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

// lengths are printf's modifiers for the sizes of numbers. Without the short ones, readers
// print a negative number of one or two bytes as a positive one.
var lengths = map[int]string{1: "hh", 2: "h", 4: "", 8: "l"}

// maxShownValues limits the number of an enumeration's names in a format.
const maxShownValues = 500

// symbolic prints an enumeration by name. Print formats support unsigned numbers only.
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

var fetchTypeWord = regexp.MustCompile(`^(?:([usx])(8|16|32|64)|(char)|(symbol)|(u?string)|` +
	`b\d+@\d+/(8|16|32|64))(?:\[(\d+)\])?$`)

// value adds a value, printed as the kernel prints probe arguments.
func (l *Layout) value(a args.Arg) error {
	typ := "x64"
	if i := strings.LastIndexByte(a.Fetch, ':'); i >= 0 {
		typ = a.Fetch[i+1:]
	}
	m := fetchTypeWord.FindStringSubmatch(typ)
	if m == nil {
		return fmt.Errorf("argument %s=%s: tracepoints do not support type %s", a.Name, a.Fetch, typ)
	}
	f := tracefs.FormatField{Name: a.Name}
	var verb string
	rec := "REC->" + a.Name
	switch {
	case m[5] != "":
		f.Type, f.Size = "__data_loc char[]", 4
		l.place(f, a.Fetch)
		l.show(a.Name, "=", `\"%s\"`, "__get_str("+a.Name+")")
		return nil
	case m[3] != "":
		f.Type, f.Size, verb = "u8", 1, "'%c'"
	case m[4] != "":
		f.Type, f.Size, verb = "u64", 8, "%pS"
	case m[6] != "":
		f.Type, verb = "u"+m[6], "%u"
		f.Size, _ = strconv.Atoi(m[6])
		f.Size /= 8
	default:
		f.Signed = m[1] == "s"
		f.Type = map[bool]string{true: "s", false: "u"}[f.Signed] + m[2]
		f.Size, _ = strconv.Atoi(m[2])
		f.Size /= 8
		sign, verbs := map[string]string{"u": "%", "s": "%", "x": "0x%"},
			map[string]string{"u": "u", "s": "d", "x": "x"}
		verb = sign[m[1]] + lengths[f.Size] + verbs[m[1]]
	}
	if a.Float {
		f.Type = map[int]string{4: "float", 8: "double"}[f.Size]
	}
	if m[7] == "" {
		l.place(f, a.Fetch)
		l.show(a.Name, "=", verb, rec)
		return nil
	}
	n, err := strconv.Atoi(m[7])
	if err != nil || n < 1 || n > args.MaxArray {
		return fmt.Errorf("argument %s=%s: an array has 1 to %d elements", a.Name, a.Fetch, args.MaxArray)
	}
	var exprs []string
	for i := range n {
		exprs = append(exprs, fmt.Sprintf("%s[%d]", rec, i))
	}
	f.Name, f.Size = fmt.Sprintf("%s[%d]", f.Name, n), n*f.Size
	l.place(f, a.Fetch)
	l.show(a.Name, "=", "{"+strings.TrimSuffix(strings.Repeat(verb+",", n), ",")+"}", strings.Join(exprs, ", "))
	return nil
}

// own adds the fields of the kernel's own tracepoint.
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
			return fmt.Errorf("its field %s is relative to another, which arguments do not support", fd.Name)
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

// Format describes the raw data, as the event with number id.
func (l *Layout) Format(id uint16) []byte {
	if l.raw.Own == nil {
		return tracefs.FormatText(l.raw.Name, id, l.fields, `"`+l.text+`"`+l.exprs)
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

// formatString matches the string literal at the start of a print format, up to the last quote.
var formatString = regexp.MustCompile(`^\s*(?:"(?:[^"\\]|\\.)*"\s*)*"(?:[^"\\]|\\.)*`)

// appendPrint adds conversions and the matching expressions to a print format.
func appendPrint(print, text, exprs string) string {
	i := len(formatString.FindString(print))
	return print[:i] + " " + text + print[i:] + exprs
}
