package packets

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gperf/format"
	"gperf/internal/quantile"
	"gperf/internal/session"
)

// Options select the form of a log.
type Options struct {
	Nanosecs  bool // times with nine digits
	ByLatency bool // the slowest packets first; otherwise in the order in which they end
}

// Log writes a block for each packet, with a line per hop, and a summary. It writes the block as soon
// as the packet ends, and otherwise at the end of the recording or when there are no more samples of the
// packet. Samples are of the same packet if they have the number of the same followed packet, or the
// address of the same sk_buff until it is freed. The result counts the skipped parts of the recording.
// The error may be errNone.
func Log(w io.Writer, s *session.Session, opts Options) (format.Skipped, error) {
	d, err := newDecoder(s)
	if err != nil {
		return format.Skipped{}, err
	}
	l := &log{Options: opts, out: bufio.NewWriterSize(w, 1<<16), hops: map[string]*quantile.Durations{},
		ends: map[string]int{}}
	flights := newFlights(d.events, l.block)
	skipped, err := s.Walk(session.WalkOptions{Names: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			if p, ok := d.decode(&b.Samples[i]); ok {
				flights.add(&p, b.Samples[i].Time)
			}
		}
		b.Release()
		return l.out.Flush() // the next samples of a live recording may come late
	})
	if err != nil {
		return skipped, err
	}
	flights.endAll()
	l.finish()
	return skipped, l.out.Flush()
}

// log writes blocks and collects the summary.
type log struct {
	Options
	out     *bufio.Writer
	blocks  int // written or kept
	samples int
	hops    map[string]*quantile.Durations
	ends    map[string]int

	kept    []block // with ByLatency
	size    int     // of their text, in bytes
	dropped int     // blocks that are not kept
}

// block is the text of a packet.
type block struct {
	text    string
	latency uint64 // ns
}

// block writes or keeps the block of a packet.
func (l *log) block(f *flight, e end) {
	l.blocks++
	l.samples += len(f.hops) + f.omitted
	if _, known := l.ends[e.group]; known || len(l.ends) < maxNames {
		l.ends[e.group]++
	}
	for _, h := range f.hops[1:] {
		l.count(h.Hop, h.since)
	}
	if !l.ByLatency {
		l.separate()
		l.out.WriteString(l.text(f, e))
		return
	}
	b := block{l.text(f, e), f.last - f.first}
	l.kept = append(l.kept, b)
	if l.size += len(b.text) + blockSize; l.size > maxSize {
		l.dropFastest()
	}
}

const blockSize = 64 // of a kept block without its text, about, in bytes

// separate writes the line between blocks.
func (l *log) separate() {
	if l.blocks > 1 {
		l.out.WriteByte('\n')
	}
}

// sortKept sorts the blocks: the slowest first, equal ones in the order in which they ended.
func (l *log) sortKept() {
	slices.SortStableFunc(l.kept, func(a, b block) int { return cmp.Compare(b.latency, a.latency) })
}

// dropFastest halves the memory of the kept blocks.
func (l *log) dropFastest() {
	l.sortKept()
	for l.size > maxSize/2 {
		last := len(l.kept) - 1
		l.size -= len(l.kept[last].text) + blockSize
		l.kept[last] = block{}
		l.kept = l.kept[:last]
		l.dropped++
	}
}

// maxNames limits the number of different hops, and of different ends, in the summary. The kernel has
// fewer functions with packets.
const maxNames = 1 << 13

func (l *log) count(name string, ns uint64) {
	d := l.hops[name]
	if d == nil {
		if len(l.hops) >= maxNames {
			return
		}
		d = new(quantile.Durations)
		l.hops[name] = d
	}
	d.Add(ns, 1)
}

// finish writes the kept blocks and the summary.
func (l *log) finish() {
	l.sortKept()
	for i, b := range l.kept {
		if i > 0 {
			l.out.WriteByte('\n')
		}
		l.out.WriteString(b.text)
	}
	if l.dropped > 0 {
		fmt.Fprintf(l.out, "\n# and %d faster packets\n", l.dropped)
	}
	if l.blocks > 0 {
		l.out.WriteByte('\n')
	}
	fmt.Fprintf(l.out, "# packets: %d, samples: %d\n", l.blocks, l.samples)
	if l.blocks > 0 {
		l.writeEnds()
	}
	if len(l.hops) > 0 {
		l.writeHops()
	}
}

func (l *log) writeEnds() {
	groups := slices.SortedFunc(maps.Keys(l.ends), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.ends[b], l.ends[a]), cmp.Compare(a, b))
	})
	l.out.WriteString("#\n#   COUNT  END\n")
	for _, g := range groups {
		fmt.Fprintf(l.out, "# %7d  %s\n", l.ends[g], g)
	}
}

// shownHops is the number of hops in the summary.
const shownHops = 20

// writeHops writes the hops with the longest times since the previous hop.
func (l *log) writeHops() {
	type line struct {
		name          string
		count         uint64
		median, worst uint64 // ns
	}
	var lines []line
	for name, d := range l.hops {
		lines = append(lines, line{name, d.N(), d.Percentile(50), d.Percentile(99)})
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.worst, a.worst), cmp.Compare(b.median, a.median), cmp.Compare(a.name, b.name))
	})
	l.out.WriteString("#\n#   COUNT       P50       P99  SLOWEST HOPS, time since the previous hop\n")
	for _, h := range lines[:min(len(lines), shownHops)] {
		fmt.Fprintf(l.out, "# %7d %9s %9s  %s\n", h.count, duration(h.median), duration(h.worst), h.name)
	}
	if more := len(lines) - shownHops; more > 0 {
		fmt.Fprintf(l.out, "# and %d faster hops\n", more)
	}
}

// text returns the block of a packet.
func (l *log) text(f *flight, e end) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", cmp.Or(f.hops[0].Flow, "unknown flow"), seconds(f.first, l.Nanosecs))
	switch {
	case f.number != 0:
		fmt.Fprintf(&b, "  packet %d", f.number)
	case f.skb != 0:
		fmt.Fprintf(&b, "  skb 0x%x", f.skb)
	}
	b.WriteByte('\n')
	names, devs, netns := widths(f.hops)
	for i := range f.hops {
		h := &f.hops[i]
		fmt.Fprintf(&b, "%10s  %-*s", "+"+duration(h.since), names, h.Hop)
		if devs > 0 {
			fmt.Fprintf(&b, "  %-*s", devs, h.Dev)
		}
		if netns > 0 {
			fmt.Fprintf(&b, "  %-*s", netns, h.namespace())
		}
		fmt.Fprintf(&b, "  %s%s len %d", h.Flow, flagLetters(h.TCPFlags), h.Len)
		h.writeDetails(&b)
		if i < len(f.hops)-1 && h.end.text != "" {
			b.WriteString("  " + h.end.text)
		}
		b.WriteByte('\n')
	}
	if f.omitted > 0 {
		fmt.Fprintf(&b, "%12sand %d more hops\n", "", f.omitted)
	}
	if e.text != "" {
		fmt.Fprintf(&b, "%12s%s", "", e.text)
		if len(f.hops) > 1 {
			fmt.Fprintf(&b, " after %s", duration(f.last-f.first))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// writeDetails writes details that few packets have.
func (h *hop) writeDetails(b *strings.Builder) {
	if h.Mark != 0 {
		fmt.Fprintf(b, " mark 0x%x", h.Mark)
	}
	if h.VLAN != 0 {
		fmt.Fprintf(b, " vlan %d", h.VLAN)
	}
	if h.Verdict != "" {
		fmt.Fprintf(b, "  %s", h.Verdict)
	}
}

// maxWidth limits the width of a column.
const maxWidth = 40

// widths returns the widths of the columns of hops, devices and namespaces, 0 for those without text.
func widths(hops []hop) (names, devs, netns int) {
	for i := range hops {
		h := &hops[i]
		names = max(names, utf8.RuneCountInString(h.Hop))
		devs = max(devs, utf8.RuneCountInString(h.Dev))
		netns = max(netns, len(h.namespace()))
	}
	return min(names, maxWidth), min(devs, maxWidth), netns
}

func (h *hop) namespace() string {
	if h.NetNS == 0 {
		return ""
	}
	return fmt.Sprintf("ns %d", h.NetNS)
}

// flagLetters returns TCP's flags as tcpdump shows them, after a blank; "" for none.
func flagLetters(flags uint8) string {
	const letters, ack = "FSRP.UEW", 0x10 // from the lowest bit; ACK's comes last
	text := " "
	for i := range len(letters) {
		if flags&^ack>>i&1 != 0 {
			text += letters[i : i+1]
		}
	}
	if flags&ack != 0 {
		text += "."
	}
	return strings.TrimRight(text, " ")
}
