// Package key reads the values of keys from samples: of fields of tracepoints, and of properties of all samples, such
// as the command.
package key

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/packet"
	"gperf/internal/session"
	"gperf/symbolize"
)

// Value is the value of a key.
type Value struct {
	Key     string
	Text    string
	Number  int64 // if Numeric
	Numeric bool
}

// Group is the values of samples that are equal under the keys.
type Group struct {
	ID     string // equal for equal values, also of other recordings; "" without values
	Values []Value
	Number int // from 1, among the groups of the same Keys or merger; 0: without values
}

// Keys reads the values of a recording's samples.
type Keys struct {
	byEvent [][]reader
	groups  map[string]*Group // by the bytes of the values
	buf     []byte
}

// reader reads the value of one key.
type reader struct {
	Column
	// appendID appends bytes that are equal for equal values. The caller appends the length.
	appendID func(b []byte, s *session.Sample) []byte
	value    func(s *session.Sample) Value
	number   func(s *session.Sample) int64 // of numbers, nil for others
	known    map[string]Value              // see Keys.Values

	// For filters:
	has     func(s *session.Sample) bool   // whether a sample has the key; nil: all have
	printed func(s *session.Sample) string // the text that the tracepoint prints for a number; nil: the number
	absent  bool                           // the event lacks the key
	leaf    bool                           // the key is known once the sample's frames are
	seconds bool                           // number is a time, which users write in seconds
	code    bool                           // number is the address of a function, which has more values than names
	names   fields.Names                   // of numbers
	texts   func() []string                // all that the key can have; nil: not known
}

// Missing is the text of keys that an event lacks.
const Missing = "N/A"

// Syscall is the key of the system calls' names.
const Syscall = "syscall"

// Options describe the keys of New.
type Options struct {
	Words []string // names of keys or of fields
	// Few adds the fields of each event with few values: texts, addresses of code, and
	// numbers with names or of at most 16 bits. All adds all fields.
	Few, All bool
	Quantum  uint64 // interval of the key time in ns, 0 for UsualQuantum
	Origin   session.Origin
}

// UsualQuantum is the default interval of the key time, in ns.
const UsualQuantum = 100_000_000

// New returns the keys of a recording's samples. An event without a field yields the value Missing.
// The error is a *KeyError.
func New(f *format.File, sym *symbolize.Symbolizer, opts Options) (*Keys, error) {
	k := &Keys{byEvent: make([][]reader, len(f.Attrs)), groups: map[string]*Group{}}
	p := newParser(f, sym, cmp.Or(opts.Quantum, UsualQuantum))
	p.origin = opts.Origin
	for _, word := range opts.Words {
		found, err := p.parse(word)
		if err != nil {
			return nil, err
		}
		for i, r := range found {
			k.byEvent[i] = append(k.byEvent[i], r)
		}
	}
	for i, named := range k.byEvent {
		if !opts.Few && !opts.All {
			break
		}
		for _, r := range p.fields(i, opts.All) {
			if !slices.ContainsFunc(named, func(n reader) bool { return n.Key == r.Key }) {
				k.byEvent[i] = append(k.byEvent[i], r)
			}
		}
	}
	return k, nil
}

// Names returns the whole names of a list of keys of a recording, with commas or blanks between the words, which may be
// abbreviations. The error is a *KeyError.
func Names(f *format.File, list string) (names []string, err error) {
	p := newParser(f, nil, UsualQuantum)
	for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		readers, err := p.parse(word)
		if err != nil {
			return nil, err
		}
		if len(readers) > 0 {
			word = readers[0].Key
		}
		names = append(names, word)
	}
	return names, nil
}

// Of returns the group of a sample.
func (k *Keys) Of(s *session.Sample) *Group {
	readers := k.byEvent[s.Event]
	if len(readers) == 0 {
		return &noValues
	}
	b := binary.LittleEndian.AppendUint32(k.buf[:0], uint32(s.Event))
	for _, r := range readers {
		start := len(b)
		b = r.appendID(b, s)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(b)-start))
	}
	k.buf = b
	g := k.groups[string(b)]
	if g == nil {
		g = newGroup(readers, s, len(k.groups)+1)
		k.groups[string(b)] = g
	}
	return g
}

// noValues is the group of all samples of events without keys.
var noValues Group

// Value returns the value of a key, Missing if the group has none.
func (g *Group) Value(key string) Value {
	for _, v := range g.Values {
		if v.Key == key {
			return v
		}
	}
	return Value{Key: key, Text: Missing}
}

func newGroup(readers []reader, s *session.Sample, number int) *Group {
	values := make([]Value, 0, len(readers))
	for _, r := range readers {
		values = append(values, r.value(s))
	}
	return GroupOf(values, number)
}

// GroupOf returns the group with these values and number.
func GroupOf(values []Value, number int) *Group {
	var id []byte
	for _, v := range values {
		id = strconv.AppendQuote(append(id, v.Key...), v.Text)
	}
	return &Group{ID: string(id), Values: values, Number: number}
}

// KeyError means that a key is unknown.
type KeyError struct {
	Key  string
	Keys []string // all in the recording
}

func (e *KeyError) Error() string { return fmt.Sprintf("unknown key %q", e.Key) }

// WrongUse reports that the command line caused the error.
func (e *KeyError) WrongUse() bool { return true }

// parser finds the keys of a recording.
type parser struct {
	file *format.File
	rawData
	names   fields.SyscallTable
	quantum uint64
	origin  session.Origin
	sockets []format.CPUPlace // see parser.socket
}

func newParser(f *format.File, sym *symbolize.Symbolizer, quantum uint64) *parser {
	return &parser{file: f, rawData: rawData{session.TracepointEnv(f, sym)},
		names:   fields.SyscallsOf(f.String(format.FeatureArch)),
		quantum: quantum}
}

// parse returns the readers of a word, one per event.
func (p *parser) parse(word string) ([]reader, error) {
	if r, ok := p.common(word); ok {
		return slices.Repeat([]reader{r}, len(p.file.Attrs)), nil
	}
	readers, found := make([]reader, len(p.file.Attrs)), false
	for i := range readers {
		readers[i] = p.ofEvent(word, i)
		found = found || !readers[i].absent
	}
	if found {
		return readers, nil
	}
	for _, key := range session.OriginKeys { // fields may use these names
		if len(word) >= 2 && strings.HasPrefix(key, word) {
			return slices.Repeat([]reader{constant(key, p.origin.Part(key))}, len(p.file.Attrs)), nil
		}
	}
	return nil, &KeyError{word, p.keys()}
}

// ofEvent returns the reader of a key that not all events have.
func (p *parser) ofEvent(word string, event int) reader {
	if t := p.file.Tracepoint(event); t != nil {
		if word == Syscall && HasSyscalls(t) {
			return p.syscall(t)
		}
		if fd := t.Field(word); fd != nil {
			return p.field(t, fd)
		}
	}
	if r := p.derived(word, event); r != nil {
		return *r
	}
	if r := p.ofSample(word); r != nil {
		return *r
	}
	return missing(word)
}

// keys returns the names of all keys.
func (p *parser) keys() []string {
	names := slices.Concat(commonKeys, session.OriginKeys)
	if session.HasWakers(p.file) {
		names = append(names, wakerKeys...)
	}
	names = append(names, p.derivedKeys()...)
	for i := range p.file.Attrs {
		t := p.file.Tracepoint(i)
		if t == nil {
			continue
		}
		if HasSyscalls(t) && !slices.Contains(names, Syscall) {
			names = append(names, Syscall)
		}
		for j := range t.Fields {
			if name := t.Fields[j].Name; !isCommon(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func isCommon(field string) bool { return strings.HasPrefix(field, "common_") }

// HasSyscalls reports whether a tracepoint's id is the number of a system call.
func HasSyscalls(t *tracepoint.Format) bool {
	id := t.Field("id")
	switch {
	case id == nil:
		return false
	case t.System == "span":
		return t.Field("args") != nil || t.Field("below") != nil && id.Signed // of samples, and of histograms
	}
	return t.System == "raw_syscalls"
}

func missing(key string) reader {
	r := constant(key, Missing)
	r.absent = true
	return r
}

// constant returns the reader of a value of all samples of the recording.
func constant(key, text string) reader {
	return reader{
		Column:   Column{Key: key},
		appendID: func(b []byte, _ *session.Sample) []byte { return b },
		value:    func(*session.Sample) Value { return Value{Key: key, Text: text} },
	}
}

// fields returns the readers of an event's fields, of all or of those with few values.
func (p *parser) fields(event int, all bool) (l []reader) {
	if session.IsWait(&p.file.Attrs[event]) && session.HasWakers(p.file) {
		return []reader{waker("waker_comm"), waker("waker_pid"), waker("waker_tid")}
	}
	t := p.file.Tracepoint(event)
	if t == nil {
		return nil
	}
	if HasSyscalls(t) {
		l = append(l, p.syscall(t))
	}
	for i := range t.Fields {
		if fd := &t.Fields[i]; !isCommon(fd.Name) && (all || hasFewValues(t, fd)) {
			l = append(l, p.field(t, fd))
		}
	}
	return l
}

// hasFewValues reports whether a field takes few values. Of a packet's numbers, which are in its flow or rarely asked
// for, it omits those that are not printed by default.
func hasFewValues(t *tracepoint.Format, fd *tracepoint.Field) bool {
	if t.Field("flow") != nil && packet.IsNumber(fd.Name) && !slices.Contains(packet.Default, fd.Name) {
		return false
	}
	return fd.String || t.Symbols(fd) != nil || isCode(t, fd) || isNumber(fd) && fd.Size <= 2
}

func isCode(t *tracepoint.Format, fd *tracepoint.Field) bool {
	return slices.Contains(t.CodeFields(), fd)
}

// isNumber reports whether a field is a whole number.
func isNumber(fd *tracepoint.Field) bool {
	return !fd.String && !fd.Array && !fd.Sized() && !fd.Float && fd.Size <= 8
}

// field returns the reader of a tracepoint's field.
func (p *parser) field(t *tracepoint.Format, fd *tracepoint.Field) reader {
	symbols, column := t.Symbols(fd), Column{Key: fd.Name, Unsigned: !fd.Signed}
	r := reader{Column: column, code: isCode(t, fd), names: namesOf(fd, symbols),
		appendID: func(b []byte, s *session.Sample) []byte { return append(b, p.bytes(fd, s)...) }}
	if isNumber(fd) {
		r.number = func(s *session.Sample) int64 { return p.int(fd, s) }
		if t.PrintsText(fd) {
			r.printed = func(s *session.Sample) string { return p.text(t, fd, symbols, s) }
		}
	}
	switch {
	case fd.String:
		r.value = func(s *session.Sample) Value { return Value{Key: fd.Name, Text: string(p.bytes(fd, s))} }
	case r.names != nil && symbols == nil && fd.Name != "ret":
		r.value = func(s *session.Sample) Value {
			n := p.int(fd, s)
			if name := fields.NumberName(fd.Name, uint64(n)); name != "" {
				return Value{Key: fd.Name, Text: name}
			}
			return column.valueOf(n)
		}
	case r.number != nil && r.printed == nil && !fd.Pointer && symbols == nil && !r.code:
		r.Numeric = true
		r.value = func(s *session.Sample) Value { return column.valueOf(p.int(fd, s)) }
	default:
		r.value = func(s *session.Sample) Value {
			text := p.text(t, fd, symbols, s)
			if r.number != nil && !fd.Pointer {
				if plain := column.valueOf(p.int(fd, s)); plain.Text == text { // without a name
					return plain
				}
			}
			return Value{Key: fd.Name, Text: text}
		}
	}
	return r
}

// namesOf returns the names of a field's numbers.
func namesOf(fd *tracepoint.Field, symbols []tracepoint.Symbol) fields.Names {
	if symbols == nil {
		return fields.NamesOf(fd.Name)
	}
	names := fields.Names{}
	for _, s := range symbols {
		names[s.Name] = s.Value
	}
	return names
}

// rawData reads the fields of tracepoints.
type rawData struct{ env tracepoint.Env }

// bytes returns a field's bytes, of a text the bytes up to the end.
func (p *rawData) bytes(fd *tracepoint.Field, s *session.Sample) []byte {
	b := fd.Bytes(s.Raw, p.env.Order)
	if fd.String {
		b, _, _ = bytes.Cut(b, []byte{0})
	}
	return b
}

func (p *rawData) int(fd *tracepoint.Field, s *session.Sample) int64 {
	v, _ := fd.Uint(s.Raw, p.env.Order)
	return int64(v)
}

// text returns the word after the field's name in the tracepoint's text, the name of its
// number, or the field as it is printed.
func (p *rawData) text(t *tracepoint.Format, fd *tracepoint.Field, symbols []tracepoint.Symbol,
	s *session.Sample) string {
	if !HasBlanks(fd) {
		if text := tracepoint.Printed(string(t.AppendPrint(nil, s.Raw, &p.env)), fd.Name); text != "" {
			return text
		}
	}
	v := p.int(fd, s)
	if i := slices.IndexFunc(symbols, func(y tracepoint.Symbol) bool { return y.Value == v }); i >= 0 {
		return symbols[i].Name
	}
	return string(t.AppendField(nil, fd, s.Raw, &p.env))
}

// HasBlanks reports whether a field's text can contain blanks: it is more than the word after the field's name in the
// tracepoint's text.
func HasBlanks(fd *tracepoint.Field) bool { return fd.String && fd.Dynamic && packet.IsText(fd.Name) }

// syscall returns the reader of a system call's name.
func (p *parser) syscall(t *tracepoint.Format) reader {
	id := t.Field("id")
	number := func(s *session.Sample) int64 { return SyscallNumber(t, p.int(id, s), s.Is32Bit()) }
	return reader{
		Column: Column{Key: Syscall},
		appendID: func(b []byte, s *session.Sample) []byte {
			return binary.LittleEndian.AppendUint64(b, uint64(number(s)))
		},
		value: func(s *session.Sample) Value { return Value{Key: Syscall, Text: p.names.Name(number(s))} },
		texts: p.syscallNames,
	}
}

// syscallNames returns the names of the recording's system calls.
func (p *parser) syscallNames() (names []string) {
	for _, name := range p.names.All() {
		names = append(names, name)
	}
	return names
}

// SyscallNumber returns the number of an event's system call, for package fields. The kernel's own events do not say
// to which table it belongs: gperf assumes the program's.
func SyscallNumber(t *tracepoint.Format, id int64, is32 bool) int64 {
	if is32 && t.System == "raw_syscalls" && id >= 0 {
		return id | fields.CompatSyscall
	}
	return id
}

func number(key string, n int64) Value {
	return Value{Key: key, Text: strconv.FormatInt(n, 10), Number: n, Numeric: true}
}
