package report

import (
	"strconv"
	"strings"

	"gperf/internal/session"
	"gperf/symbolize/srcline"
)

// Source file and line of entries.

// sourceKey is the key srcline, or srcfile.
func sourceKey(name, head string, use uses, text func(*Entry) string) *SortKey {
	return &SortKey{Name: name, Head: head, uses: use,
		cmp:   func(_ *Hist, a, b *Entry) int { return strings.Compare(text(b), text(a)) },
		width: func(_ *Hist, e *Entry) int { return len(text(e)) },
		append: func(_ *Hist, b []byte, e *Entry, width int) []byte {
			return append(b, text(e)[:min(len(text(e)), width)]...)
		}}
}

var (
	srclineKey = sourceKey("srcline", "Source:Line", usesSrcline, func(e *Entry) string { return e.srcline })
	srcfileKey = sourceKey("srcfile", "Source File", usesSrcfile, func(e *Entry) string { return e.srcfile })
)

// branchLineKey distinguishes the lines of branches' addresses.
func branchLineKey(name, head string, frame func(*extra) *session.Frame) *SortKey {
	k := leftKey(name, head, 0, func(h *Hist, e *Entry) string { return h.places.line(frame(e.extra)) })
	k.frame, k.identity = frame, func(p *places, f *session.Frame) int32 {
		return number(p.lines, p.line(f))
	}
	return branchKey(k)
}

// line returns the file and line of the innermost call at an address.
func (p *places) line(f *session.Frame) string {
	var call *srcline.InlineFrame
	if calls := f.Calls(); len(calls) > 0 {
		call = &calls[0]
	}
	return p.srcline(p.of(f), call)
}

// callAt returns the call that an entry at a place shows: the innermost one of a
// sampled instruction; in a callchain with inlined calls, each its own.
func callAt(pl *place, inlined bool) *srcline.InlineFrame {
	if pl.call != nil {
		return pl.call
	}
	calls := pl.frame.Calls()
	switch {
	case len(calls) == 0:
		return nil
	case inlined && pl.frame.Sym() != nil:
		return &calls[len(calls)-1]
	}
	return &calls[0]
}

// source is the text of the keys srcline and srcfile at a place, and its numbers in identities.names.
type source struct {
	known                  bool
	line, file             string
	lineNumber, fileNumber int32
}

// source makes the texts of a place once.
func (b *histBuilder) source(pl *place, at position) source {
	if pl.sources == nil {
		pl.sources = new([positions]source)
	}
	s := &pl.sources[at]
	if s.known {
		return *s
	}
	places, names := b.hist.places, b.identities.names
	lineAt := places.lineInChain
	if at == atSample {
		lineAt = places.srcline
	}
	c := callAt(pl, at.inlines(b.hist.opts))
	line, file := lineAt(pl, c), places.srcfile(c)
	*s = source{known: true, line: line, file: file, lineNumber: names.numberOf(line), fileNumber: names.numberOf(file)}
	return *s
}

// lineInChain returns the text of the key srcline for a frame of a callchain. If the graph shows addresses, perf
// leaves the symbol out.
func (p *places) lineInChain(pl *place, c *srcline.InlineFrame) string {
	if sym := pl.frame.Sym(); sym != nil && c == nil && p.opts.Graph.ByAddress {
		return "+" + strconv.FormatUint(pl.frame.Off(), 10)
	}
	return p.srcline(pl, c)
}

// srcline returns the place's file and line, or else the offset in the symbol, in
// decimal as in perf, or in the DSO (get_srcline of tools/perf/util/srcline.c).
func (p *places) srcline(pl *place, c *srcline.InlineFrame) string {
	switch sym := pl.frame.Sym(); {
	case c != nil:
		return p.srcfile(c) + ":" + strconv.Itoa(c.Line)
	case sym != nil:
		return sym.Name + "+" + strconv.FormatUint(pl.frame.Off(), 10)
	case pl.frame.Map == nil:
		return "??:0"
	}
	return pl.dso + "[" + strconv.FormatUint(pl.frame.MapOff(), 16) + "]"
}

// srcfile returns the call's file, "" if unknown.
func (p *places) srcfile(c *srcline.InlineFrame) string {
	if c == nil {
		return ""
	}
	return c.Path(p.opts.FullPath)
}
