package programs

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/perfevent"
	"gperf/record/tracefs"
)

// attachSpans attaches the programs of spans.
func (a *attachments) attachSpans(spans []*event.Event) error {
	var calls []call
	for _, ev := range spans {
		f, err := filterOf(ev, spanFormat(ev))
		if err != nil {
			return &perfevent.FilterError{Event: ev.Name, Filter: ev.Filter, Err: err}
		}
		a.spans[ev.Config] = ev.Span
		span := bpf.Span{ID: uint16(ev.Config), Min: ev.Span.Min, Filter: f, Hist: a.histogramOf(ev.Span)}
		switch {
		case ev.Span.IsSyscalls():
			err = a.bpf.AttachSyscalls(&span, noReturn())
		case ev.Span.Call != nil:
			calls = append(calls, call{ev, span})
		default:
			err = a.attachPair(span, ev)
		}
		if err != nil {
			return &SamplerError{ev.Name, err}
		}
	}
	return a.attachCalls(calls)
}

// noReturn returns the numbers of the system calls that never end, of 64-bit and 32-bit programs.
func noReturn() [4]int64 {
	l := [4]int64{-1, -1, -1, -1}
	t := fields.SyscallsOf(machine())
	copy(l[:], slices.Concat(t.Numbers("exit"), t.Numbers("exit_group")))
	return l
}

// attachPair attaches the programs of a span between two tracepoints or functions.
func (a *attachments) attachPair(span bpf.Span, ev *event.Event) (err error) {
	p := &bpf.Pair{Span: span}
	if c := ev.Span.Begin.Call; c != nil {
		p.Path, p.Go, p.GoID = c.Path, c.Go, c.GoID
	}
	if p.Begin, err = a.pairEnd(ev.Span.Begin, ev.Span.Key); err != nil {
		return err
	}
	if p.End, err = a.pairEnd(ev.Span.End, ev.Span.EndKey); err != nil {
		return err
	}
	return a.bpf.AttachPair(p)
}

// pairEnd returns an end of a pair: it opens a tracepoint.
func (a *attachments) pairEnd(end *event.SpanEnd, key []string) (e bpf.PairEnd, err error) {
	if end.Call != nil {
		e.Off = end.Call.Begin
	} else {
		if e.FD, err = perfevent.OpenForProgram(format.TypeTracepoint, end.ID); err != nil {
			return e, fmt.Errorf("opening tracepoint %s:%s: %w", end.System, end.Name, err)
		}
		a.tracepoints = append(a.tracepoints, e.FD)
	}
	e.Size = sizeOf(end.Format)
	for _, name := range key {
		f := end.Format.Field(name)
		e.Keys = append(e.Keys, bpf.PairKey{At: uint32(f.Offset), Size: uint32(f.Size)})
	}
	return e, nil
}

// sizeOf returns the bytes of a tracepoint's fields without the common ones.
func sizeOf(f *tracepoint.Format) (size int) {
	for i := range f.Fields {
		size = max(size, f.Fields[i].Offset+f.Fields[i].Size-tracefs.CommonSize)
	}
	return (size + 7) &^ 7
}

// SpanStats counts the spans without a sample.
func (s *Sampler) SpanStats() (bpf.SpanStats, error) { return s.bpf.SpanStats() }

// spanFields are the fields of all spans.
var spanFields = []tracefs.FormatField{
	{Type: "u64", Name: "duration", Offset: bpf.SpanDuration, Size: 8},
	{Type: "u64", Name: "start", Offset: bpf.SpanStart, Size: 8},
}

// spanFormat returns the format text of a span's raw data.
func spanFormat(ev *event.Event) []byte {
	fields, print := syscallFields, syscallPrint()
	switch {
	case ev.Span.Call != nil:
		fields, print = callFields(ev.Span.Call)
	case !ev.Span.IsSyscalls():
		fields, print = pairFields(ev.Span)
	}
	fields = append(spanFields[:len(spanFields):len(spanFields)], fields...)
	return tracefs.FormatText(spanName(ev), uint16(ev.Config), fields, print)
}

// spanName returns the name of a span in the span's format text.
func spanName(ev *event.Event) string {
	_, name, ok := strings.Cut(ev.Name, ":")
	if !ok { // from the term name
		return ev.Name
	}
	return name
}

// syscallFields are the fields of system calls.
var syscallFields = []tracefs.FormatField{
	{Type: "long", Name: "id", Offset: bpf.SyscallID, Size: 8, Signed: true},
	{Type: "unsigned long", Name: "args[6]", Offset: bpf.SyscallArgs, Size: 48},
	{Type: "long", Name: "ret", Offset: bpf.SyscallRet, Size: 8, Signed: true},
	{Type: "unsigned long", Name: "ip", Offset: bpf.SyscallIP, Size: 8},
}

// syscallPrint returns the print format of system calls.
func syscallPrint() string {
	return `"%s(0x%lx, 0x%lx, 0x%lx, 0x%lx, 0x%lx, 0x%lx) = %ld duration=%llu start=%llu", ` + syscallNames() +
		", REC->args[0], REC->args[1], REC->args[2], REC->args[3], REC->args[4], REC->args[5], REC->ret, " +
		"REC->duration, REC->start"
}

// syscallNames prints the field id by name.
func syscallNames() string {
	var b strings.Builder
	b.WriteString("__print_symbolic(REC->id")
	for nr, name := range fields.SyscallsOf(machine()).All() {
		fmt.Fprintf(&b, ", { %d, %q }", nr, name)
	}
	b.WriteString(")")
	return b.String()
}

// machine returns the name of this machine's architecture, as uname -m prints it.
func machine() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Machine[:])
}

// pairFields returns the fields of a span between two tracepoints, and the print format of the fields: all fields
// of the first tracepoint, and the fields of the second that the first lacks. Fields of variable length are left
// out.
func pairFields(s *event.Span) (fields []tracefs.FormatField, print string) {
	fields = []tracefs.FormatField{{Type: "int", Name: "start_pid", Offset: bpf.PairPID, Size: 4, Signed: true}}
	text, exprs := "duration=%llu start=%llu start_pid=%d", ", REC->duration, REC->start, REC->start_pid"
	names := map[string]bool{"duration": true, "start": true, "start_pid": true}
	at := bpf.PairData
	for _, end := range []*event.SpanEnd{s.Begin, s.End} {
		for i := range end.Format.Fields {
			f := &end.Format.Fields[i]
			if f.Offset < tracefs.CommonSize || f.Dynamic || names[f.Name] {
				continue
			}
			names[f.Name] = true
			fields = append(fields, pairField(f, at+f.Offset-tracefs.CommonSize))
			if f.String {
				text += " " + f.Name + "=%s"
				exprs += ", REC->" + f.Name
			} else if !f.Array {
				verb, expr := fieldVerb(&fields[len(fields)-1])
				text += " " + f.Name + "=" + verb
				exprs += ", " + expr
			}
		}
		at += sizeOf(end.Format)
	}
	return fields, `"` + text + `"` + exprs
}

// pairField returns a tracepoint's field at another position.
func pairField(f *tracepoint.Field, at int) tracefs.FormatField {
	typ, name := f.Type, f.Name
	if i := strings.IndexByte(typ, '['); i >= 0 {
		typ, name = typ[:i], name+typ[i:]
	}
	return tracefs.FormatField{Type: typ, Name: name, Offset: at, Size: f.Size, Signed: f.Signed}
}

// fieldVerb returns the conversion of a number in a print format and the expression.
func fieldVerb(f *tracefs.FormatField) (verb, expr string) {
	expr = "REC->" + f.Name
	switch {
	case f.Size == 8 && strings.HasSuffix(f.Type, "*"):
		return "0x%llx", expr
	case f.Size == 8 && f.Signed:
		return "%lld", expr
	case f.Size == 8:
		return "%llu", expr
	case f.Signed:
		return "%d", expr
	}
	return "%u", expr
}
