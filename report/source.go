package report

import (
	"strconv"
	"strings"

	"gperf/symbolize/srcline"
)

// Where in the source an entry is: its file, and its line there.

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

// callAt is what of DWARF an entry at a place shows: of a sampled instruction the
// innermost call; in a callchain that shows inlined calls too, each its own.
func (h *Hist) callAt(pl *place, inChain bool) *srcline.Call {
	if pl.call != nil {
		return pl.call
	}
	calls := pl.frame.Calls(pl.caller)
	switch {
	case len(calls) == 0:
		return nil
	case inChain && h.opts.Inline && pl.frame.Sym() != nil:
		return &calls[len(calls)-1]
	}
	return &calls[0]
}

// srcline is the place's file and line; where they are not known, how far into
// its symbol it is, as perf has it in decimal, or into its DSO
// (get_srcline of tools/perf/util/srcline.c).
func (h *Hist) srcline(pl *place, c *srcline.Call) string {
	switch sym := pl.frame.Sym(); {
	case c != nil:
		return h.srcfile(c) + ":" + strconv.Itoa(c.Line)
	case sym != nil:
		return sym.Name + "+" + strconv.FormatUint(pl.frame.Off(), 10)
	case pl.frame.Map == nil:
		return "??:0"
	}
	return pl.dso + "[" + strconv.FormatUint(pl.frame.MapOff(), 16) + "]"
}

// srcfile is the call's file, "" where it is not known.
func (h *Hist) srcfile(c *srcline.Call) string {
	if c == nil {
		return ""
	}
	return c.Path(h.opts.FullPath)
}
