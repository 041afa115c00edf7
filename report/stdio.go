package report

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/internal/parallel"
	"gperf/internal/text"
)

// ErrNoSamples: the recording contains no samples. The text before the events' blocks
// was written.
var ErrNoSamples = errors.New("no samples")

// tip ends a report. perf ends it with one of many tips.
const tip = "#\n# (Tip: For a higher level overview, try: gperf report --sort comm,dso)\n#\n"

// HeaderHint is the first line of a report without the recording's header.
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
		if err := writeBlock(w, h); err != nil {
			return err
		}
	}
	if !opts.Quiet {
		w.WriteString(tip)
	}
	return w.Flush()
}

// blockWriter writes the block of a histogram.
type blockWriter struct {
	hist   *Hist
	w      *bufio.Writer
	widths []int // of the columns
	whole  []int // before they were fitted to the window
	graphs drawing
}

// writeBlock writes the block of a histogram.
func writeBlock(w *bufio.Writer, h *Hist) error {
	b := &blockWriter{hist: h, w: w, widths: h.widths(), graphs: h.drawing()}
	b.whole = slices.Clone(b.widths)
	b.fit()
	if h.opts.Hierarchy {
		return b.writeHierarchy()
	}
	return b.writeList()
}

// fit reduces the widths of the columns to the window's, except figures and --column-widths.
func (w *blockWriter) fit() {
	if w.hist.opts.Look.Width == 0 || w.hist.opts.Separator != "" || w.hist.opts.Hierarchy {
		return
	}
	room, minimums := w.hist.opts.Look.Width, make([]int, len(w.widths))
	for i, k := range w.hist.layout.columns {
		minimums[i] = -1
		switch {
		case !k.shown(w.hist.event): // it takes no room
			room += w.widths[i]
		case k.figureOf == nil && k.user == 0:
			minimums[i] = max(len(k.Head), minColumn)
			fallthrough
		default:
			room -= 2
		}
	}
	text.Fit(w.widths, minimums, room)
}

// minColumn is the minimum width of a column of names.
const minColumn = 10

// writeList writes the entries in portions: the text may be a hundred times as big
// as the entries.
func (w *blockWriter) writeList() error {
	const atATime = 256
	var text []byte
	if !w.hist.opts.Quiet {
		text = w.appendHead(w.appendTitle(text))
	}
	var graphs [atATime][]byte
	for portion := range slices.Chunk(w.hist.Visible(), atATime) {
		if w.hist.chains {
			parallel.Do(len(portion), func(i int) {
				graphs[i] = w.graphs.append(graphs[i][:0], portion[i], portion[i].shown(w.hist.opts))
			})
		}
		for i, e := range portion {
			text = append(w.appendEntry(text, e), '\n')
			text = append(text, graphs[i]...)
			if _, err := w.w.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	_, err := w.w.Write(append(text, "\n\n"...))
	return err
}

// appendTitle appends the text before the columns.
func (w *blockWriter) appendTitle(b []byte) []byte {
	total := w.hist.sum()
	b = appendShort(append(b, "# Samples: "...), total.Samples)
	plural := ""
	if w.hist.plural {
		plural = "s"
	}
	b = fmt.Appendf(b, " of event%s '%s'\n", plural, w.hist.Event)
	if w.hist.opts.Mode == ModeMemory {
		return fmt.Appendf(b, "# Total weight : %d\n# Sort order   : %s\n#\n", total.Period, w.hist.layout.order)
	}
	if w.hist.opts.Weight != "" {
		return fmt.Appendf(b, "# Sum of %s: %d\n#\n", w.hist.opts.Weight, total.Period)
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

// madeTraces reports whether perf knows the traces' texts when it computes widths: it
// makes them to compare them, so the text of a single sample is cut.
func (h *Hist) madeTraces() bool {
	return h.traces.formats[h.event] != nil && h.Total.Samples > 1
}

func (w *blockWriter) appendHead(b []byte) []byte {
	sep := cmp.Or(w.hist.opts.Separator, "  ")
	head, dots := []byte("# "), []byte("# ")
	for i, k := range w.hist.layout.columns {
		if !k.shown(w.hist.event) {
			continue
		}
		if len(dots) > 2 {
			head, dots = append(head, sep...), append(dots, sep...)
		}
		if k.figure {
			head = appendRight(head, k.Head, w.widths[i])
		} else {
			head = appendLeft(head, k.Head, w.widths[i])
		}
		dots = append(dots, strings.Repeat(".", w.widths[i])...)
	}
	b = append(append(b, head...), '\n')
	if w.hist.opts.Separator != "" {
		return b
	}
	return append(append(b, dots...), "\n#\n"...)
}

func (w *blockWriter) appendEntry(b []byte, e *Entry) []byte {
	sep := w.hist.opts.Separator
	first := true
	for i, k := range w.hist.layout.columns {
		if !k.shown(w.hist.event) {
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
			width := w.widths[i]
			if k.user > 0 {
				width = max(k.user, len(k.Head))
			}
			b = w.appendFigures(b, e, k, width)
		} else {
			b = w.appendName(b, e, i)
		}
		if sep != "" && !k.figure {
			replaceByte(b[n:], sep[0], '.')
		}
		if i < len(w.widths)-1 {
			b = text.AppendBlanks(b, min(w.widths[i], maxPad)-w.columns(b[n:]))
		}
	}
	return b
}

// appendName appends the text of column i, which is no figure. A column that was fitted to the window has the
// beginnings and ends of long texts.
func (w *blockWriter) appendName(b []byte, e *Entry, i int) []byte {
	k := w.hist.layout.columns[i]
	if w.widths[i] == w.whole[i] {
		return k.append(w.hist, b, e, w.widths[i])
	}
	shown := strings.TrimRight(string(k.append(w.hist, nil, e, w.whole[i])), " ")
	if k.uses&usesSymbol != 0 {
		return append(b, text.Function(shown, w.widths[i])...)
	}
	return append(b, text.Middle(shown, w.widths[i])...)
}

// columns returns the width of a text: in bytes, as perf does, unless it is printed for a terminal.
func (w *blockWriter) columns(b []byte) int {
	if w.hist.opts.Look == (text.Style{}) {
		return len(b)
	}
	return w.hist.opts.Look.Columns(b)
}

// replaceByte replaces the separator within a field.
func replaceByte(b []byte, old, new byte) {
	for i := range b {
		if b[i] == old {
			b[i] = new
		}
	}
}
