package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/internal/parallel"
)

// ErrNoSamples: the recording has no samples. The text before the events' blocks
// was written.
var ErrNoSamples = errors.New("no samples")

// tip closes a report, as one of many does with perf.
const tip = "#\n# (Tip: For a higher level overview, try: gperf report --sort comm,dso)\n#\n"

// HeaderHint opens a report without the recording's header.
const HeaderHint = "# To display the perf.data header info, please use --header/--header-only options.\n#\n"

// write writes all blocks, and the text before them.
func write(out io.Writer, l *layouts, opts *Options, hists []*Hist, lost uint64) error {
	w := bufio.NewWriterSize(out, 1<<16)
	if !opts.Quiet && !opts.Header {
		w.WriteString(HeaderHint)
	}
	for _, k := range l.columns() {
		if list := opts.Filter.list(k); len(list) == 1 {
			fmt.Fprintf(w, "# %s: %s\n", k.Name, list[0])
		}
	}
	if len(hists) == 0 {
		return errors.Join(w.Flush(), ErrNoSamples)
	}
	if !opts.Quiet {
		fmt.Fprintf(w, "#\n# Total Lost Samples: %d\n#\n", lost)
	}
	for _, k := range l.columns() {
		if k.field != nil {
			k.min = max(k.min, k.field.textWidth(hists))
		}
	}
	for _, h := range hists {
		if err := h.write(w); err != nil {
			return err
		}
	}
	if !opts.Quiet {
		w.WriteString(tip)
	}
	return w.Flush()
}

// write writes the histogram's block.
func (h *Hist) write(w *bufio.Writer) error {
	d := drawing{g: &h.opts.Graph, total: h.all.Period, minHits: h.minHits, byName: h.layout.byName, sep: h.opts.Separator}
	if d.sep == "" {
		d.sep = ";"
	}
	if h.opts.Hierarchy {
		return h.writeHierarchy(w, &d)
	}
	return h.writeList(w, &d)
}

// writeList writes the entries in portions: their text may be a hundred times as big
// as the entries.
func (h *Hist) writeList(w *bufio.Writer, d *drawing) error {
	const atATime = 256
	widths := h.widths()
	var text []byte
	if !h.opts.Quiet {
		text = h.appendHead(h.appendTitle(text), widths)
	}
	var shown []*Entry
	for _, e := range h.Entries {
		if h.visible(e.shown(h.opts)) {
			shown = append(shown, e)
		}
	}
	var graphs [atATime][]byte
	for some := range slices.Chunk(shown, atATime) {
		if h.chains {
			parallel.Do(len(some), func(i int) { graphs[i] = d.append(graphs[i][:0], some[i], some[i].shown(h.opts)) })
		}
		for i, e := range some {
			text = append(h.appendEntry(text, e, widths), '\n')
			text = append(text, graphs[i]...)
			if _, err := w.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	_, err := w.Write(append(text, "\n\n"...))
	return err
}

// appendTitle appends the text before the columns.
func (h *Hist) appendTitle(b []byte) []byte {
	total := h.sum()
	b = appendShort(append(b, "# Samples: "...), total.Samples)
	plural := ""
	if h.plural {
		plural = "s"
	}
	b = fmt.Appendf(b, " of event%s '%s'\n", plural, h.Event)
	if h.opts.Mode == ModeMemory {
		return fmt.Appendf(b, "# Total weight : %d\n# Sort order   : %s\n#\n", total.Period, h.layout.order)
	}
	return fmt.Appendf(b, "# Event count (approx.): %d\n#\n", total.Period)
}

// widths returns the widths of the columns.
func (h *Hist) widths() []int {
	widths := make([]int, len(h.layout.columns))
	for i, k := range h.layout.columns {
		widths[i] = max(k.min, len(k.Head))
		if k.figureOf != nil && h.members != nil {
			widths[i] = max(widths[i], h.shownMembers()*k.min)
		}
		if k.width == nil || !k.shown(h.event) || k.Name == "trace" && !h.madeTraces() {
			continue
		}
		for _, e := range h.Entries {
			widths[i] = max(widths[i], k.width(h, e))
		}
	}
	for i, k := range h.layout.columns {
		switch {
		case k.user > 0 && k.figureOf != nil:
			widths[i] = max(widths[i], k.user)
		case k.user > 0:
			widths[i] = k.user
		}
	}
	return widths
}

// madeTraces reports whether perf has the traces' texts when it computes widths: it
// makes them to compare them, so the text of a single sample is cut.
func (h *Hist) madeTraces() bool {
	return h.traces.formats[h.event] != nil && h.Total.Samples > 1
}

func (h *Hist) appendHead(b []byte, widths []int) []byte {
	sep := h.opts.Separator
	if sep == "" {
		sep = "  "
	}
	head, dots := []byte("# "), []byte("# ")
	for i, k := range h.layout.columns {
		if !k.shown(h.event) {
			continue
		}
		if len(dots) > 2 {
			head, dots = append(head, sep...), append(dots, sep...)
		}
		if k.figure {
			head = appendRight(head, k.Head, widths[i])
		} else {
			head = appendLeft(head, k.Head, widths[i])
		}
		dots = append(dots, strings.Repeat(".", widths[i])...)
	}
	b = append(append(b, head...), '\n')
	if h.opts.Separator != "" {
		return b
	}
	return append(append(b, dots...), "\n#\n"...)
}

func (h *Hist) appendEntry(b []byte, e *Entry, widths []int) []byte {
	sep := h.opts.Separator
	first := true
	for i, k := range h.layout.columns {
		if !k.shown(h.event) {
			continue
		}
		if sep == "" {
			b = append(b, "  "...)
		} else if !first {
			b = append(b, sep...)
		}
		first = false
		n := len(b)
		if k.figureOf != nil {
			width := widths[i]
			if k.user > 0 {
				width = max(k.user, len(k.Head))
			}
			b = h.appendFigures(b, e, k, width)
		} else {
			b = k.append(h, b, e, widths[i])
		}
		if sep != "" && !k.figure {
			replaceByte(b[n:], sep[0], '.')
		}
		if i < len(widths)-1 {
			b = appendBlanks(b, min(widths[i], maxPad)-(len(b)-n))
		}
	}
	return b
}

// replaceByte replaces the separator within a field.
func replaceByte(b []byte, old, new byte) {
	for i := range b {
		if b[i] == old {
			b[i] = new
		}
	}
}
