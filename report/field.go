package report

import (
	"bytes"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/symbolize"
)

// traces makes the texts of tracepoint data.
type traces struct {
	formats []*tracepoint.Format // by event, nil for others
	raw     bool
	env     tracepoint.Env
}

func newTraces(f *format.File, sym *symbolize.Symbolizer, raw bool) *traces {
	t := &traces{raw: raw}
	for i := range f.Attrs {
		t.formats = append(t.formats, f.Tracepoint(i))
	}
	if f.Tracing == nil {
		return t
	}
	t.env = f.Tracing.Env()
	t.env.Symbol = func(ip uint64) (string, uint64, string, bool) {
		s, off, module, why := sym.Kernel(ip)
		if why != symbolize.Found {
			return "", 0, "", false
		}
		return s.Name, off, module, true
	}
	return t
}

// text returns perf script's text of the data, or all raw fields.
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
	event int
	*tracepoint.Field
	raw bool // show the field as it is
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
	if !f.Sized() {
		return 0
	}
	return len(f.Bytes(e.raw, h.traces.env.Order))
}

// textWidth is the length of the longest text; as in perf, those of other
// events' fields with the same name count too.
func (f *field) textWidth(hists []*Hist) int {
	n := 0
	for _, h := range hists {
		if f.raw || h.traces.formats[h.event] == nil {
			continue
		}
		for _, e := range h.Entries {
			n = max(n, len(cutField(h.trace(e), f.Name)))
		}
	}
	return n
}

// text returns the word after the field's name in the text of the print fmt, or
// else the raw field.
func (f *field) text(h *Hist, e *Entry) string {
	if !f.raw {
		if s := cutField(h.trace(e), f.Name); s != "" {
			return s
		}
	}
	return string(h.traces.formats[f.event].AppendField(nil, f.Field, e.raw, &h.traces.env))
}

// cutField finds "name=value", "name:value" or "name: value" in a tracepoint's
// text and returns the value, a word; "" if there is none. perf does not read
// past the blank of the last form and shows nothing for these fields, for
// example the reason of skb:kfree_skb.
func cutField(text, name string) string {
	for word := range strings.SplitSeq(text, " ") {
		text = text[min(len(word)+1, len(text)):]
		rest, ok := strings.CutPrefix(word, name)
		if !ok || rest == "" || rest[0] != '=' && rest[0] != ':' {
			continue
		}
		if rest == ":" {
			value, _, _ := strings.Cut(text, " ")
			return value
		}
		return rest[1:]
	}
	return ""
}
