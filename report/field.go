package report

import (
	"bytes"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/report/key"
	"gperf/symbolize"
)

// traces makes the texts of tracepoint data.
type traces struct {
	formats []*tracepoint.Format // by event, nil for others
	raw     bool
	env     tracepoint.Env
}

func newTraces(f *format.File, sym *symbolize.Symbolizer, raw bool) *traces {
	t := &traces{raw: raw, env: session.TracepointEnv(f, sym)}
	for i := range f.Attrs {
		t.formats = append(t.formats, f.Tracepoint(i))
	}
	return t
}

// printedText returns perf script's printedText of the data, or all raw fields.
func (t *traces) text(event int, raw []byte) string {
	f := t.formats[event]
	switch {
	case f == nil:
		return "N/A"
	case !t.raw:
		return string(f.AppendPrint(nil, raw, &t.env))
	}
	var b []byte
	for i := range f.Fields {
		if fd := &f.Fields[i]; !strings.HasPrefix(fd.Name, "common_") {
			b = append(append(append(b, ' '), fd.Name...), '=')
			b = f.AppendField(b, fd, raw, &t.env)
		}
	}
	return string(b)
}

// field is a tracepoint's field as a sort key.
type field struct {
	event  int
	format *tracepoint.Field
	raw    bool // show the field as it is
}

// newFieldKey makes a column of a field, aligned right.
func newFieldKey(event int, fd *tracepoint.Field, raw bool) *SortKey {
	f := &field{event, fd, raw}
	k := &SortKey{Name: fd.Name, Head: fd.Name, uses: usesRaw, figure: true, field: f}
	k.min = fd.Size
	switch {
	case !fd.String:
		k.min = 2*fd.Size + len("0x")
	case fd.Sized() && !fd.Dynamic:
		k.min = 0
	}
	k.cmp = func(h *Hist, a, b *Entry) int {
		order := h.traces.env.Order
		return bytes.Compare(fd.Bytes(a.raw, order), fd.Bytes(b.raw, order))
	}
	k.width = f.width
	k.append = func(h *Hist, b []byte, e *Entry, width int) []byte { return appendRight(b, f.text(h, e), width) }
	return k
}

// width counts the bytes of a dynamic field, with the NUL of a string, or of a text with
// a length; fixed ones have their place.
func (f *field) width(h *Hist, e *Entry) int {
	if !f.format.Sized() {
		return 0
	}
	return len(f.format.Bytes(e.raw, h.traces.env.Order))
}

// textWidth is the length of the longest text; as in perf, the texts of other
// events' fields with the same name count too.
func (f *field) textWidth(hists []*Hist) int {
	n := 0
	for _, h := range hists {
		if f.raw || key.HasBlanks(f.format) || h.traces.formats[h.event] == nil {
			continue
		}
		for _, e := range h.Entries {
			n = max(n, len(tracepoint.Printed(h.trace(e), f.format.Name)))
		}
	}
	return n
}

// printedText returns the word after the field's name in the printedText of the print fmt, or
// else the raw field.
func (f *field) text(h *Hist, e *Entry) string {
	if !f.raw && !key.HasBlanks(f.format) {
		if s := tracepoint.Printed(h.trace(e), f.format.Name); s != "" {
			return s
		}
	}
	return string(h.traces.formats[f.event].AppendField(nil, f.format, e.raw, &h.traces.env))
}
