package report

import (
	"strconv"
	"strings"

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

// callAt returns the call that an entry at a place shows: the innermost one of a
// sampled instruction; in a callchain with inlined calls, each its own.
func (b *histBuilder) callAt(pl *place, inChain bool) *srcline.InlineFrame {
	if pl.call != nil {
		return pl.call
	}
	calls := pl.frame.Calls()
	switch {
	case len(calls) == 0:
		return nil
	case inChain && b.opts.Inline && pl.frame.Sym() != nil:
		return &calls[len(calls)-1]
	}
	return &calls[0]
}

// srcline returns the place's file and line, or else its offset in its symbol, in
// decimal as in perf, or in its DSO (get_srcline of tools/perf/util/srcline.c).
func (b *histBuilder) srcline(pl *place, c *srcline.InlineFrame) string {
	switch sym := pl.frame.Sym(); {
	case c != nil:
		return b.srcfile(c) + ":" + strconv.Itoa(c.Line)
	case sym != nil:
		return sym.Name + "+" + strconv.FormatUint(pl.frame.Off(), 10)
	case pl.frame.Map == nil:
		return "??:0"
	}
	return pl.dso + "[" + strconv.FormatUint(pl.frame.MapOff(), 16) + "]"
}

// srcfile returns the call's file, "" if unknown.
func (b *histBuilder) srcfile(c *srcline.InlineFrame) string {
	if c == nil {
		return ""
	}
	return c.Path(b.opts.FullPath)
}
