package report

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/symbolize/replay"
)

// Folded writes a line for each distinct stack of f's samples, sorted: the
// command, the functions from the outermost to the innermost, joined by ";",
// and the sum of the periods. It is what stackcollapse-perf.pl makes of perf's
// text, so that flame graphs of both are the same:
//
//   - only samples with a callchain count;
//   - a sample of a tracepoint counts as 1, whatever its period;
//   - of other events only the first one that turns up counts.
//
// Unlike there, a DSO whose name holds " (" ("prog (deleted)") spoils nothing.
func Folded(w io.Writer, f *format.File, h *replay.History, keep func(*replay.Sample) bool, maxStack int) (format.Skipped, error) {
	c := folder{file: f, event: -1, counts: map[foldKey]int32{}, maxStack: maxStack}
	h.KeepChains, h.Also.Names = true, true
	skipped, err := h.Walk(f, keep, c.count)
	if err != nil {
		return skipped, err
	}
	return skipped, c.write(w)
}

// folder counts stacks.
type folder struct {
	file     *format.File
	event    int               // the first event that is no tracepoint; -1 before
	counts   map[foldKey]int32 // index in stacks
	stacks   []foldCount
	names    []string // of the frames, by ID
	maxStack int
}

// foldKey tells stacks apart by where replay keeps their frames. Equal stacks
// may have several keys; their texts tell.
type foldKey struct {
	comm           string
	kernel, user   **replay.Frame // their first ones, nil for none
	nkernel, nuser int
}

type foldCount struct {
	comm         string
	kernel, user []*replay.Frame
	n            uint64
}

func (c *folder) count(b *replay.Batch) error {
	for i := range b.Samples {
		s := &b.Samples[i]
		a := &c.file.Attrs[s.Event]
		if a.SampleType&format.SampleCallchain == 0 {
			continue
		}
		weight := uint64(1)
		if a.Type != format.TypeTracepoint {
			if c.event < 0 {
				c.event = s.Event
			}
			if c.event != s.Event {
				continue
			}
			weight = max(s.Period, 1)
		}
		k := foldKey{comm: s.Comm, nkernel: len(s.Kernel), nuser: len(s.User)}
		if k.nkernel > 0 {
			k.kernel = &s.Kernel[0]
		}
		if k.nuser > 0 {
			k.user = &s.User[0]
		}
		i, ok := c.counts[k]
		if !ok {
			i = int32(len(c.stacks))
			c.stacks = append(c.stacks, foldCount{comm: s.Comm, kernel: s.Kernel, user: s.User})
			c.counts[k] = i
		}
		c.stacks[i].n += weight
	}
	b.Release()
	return nil
}

func (c *folder) write(w io.Writer) error {
	totals := map[string]uint64{}
	var b []byte
	for i := range c.stacks {
		n := &c.stacks[i]
		if b = c.appendStack(b[:0], n.comm, n); len(b) > 0 {
			totals[string(b)] += n.n
		}
	}
	lines := make([]string, 0, len(totals))
	for s := range totals {
		lines = append(lines, s)
	}
	slices.Sort(lines)
	out := bufio.NewWriterSize(w, 1<<16)
	for _, s := range lines {
		b = append(append(b[:0], s...), ' ')
		b = append(strconv.AppendUint(b, totals[s], 10), '\n')
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendStack appends the stack's text, nothing when the command is one that
// the Perl does not see.
func (c *folder) appendStack(b []byte, comm string, n *foldCount) []byte {
	comm = foldedComm(comm)
	if comm == "" {
		return b
	}
	b = append(b, comm...)
	kernel := n.kernel[:min(len(n.kernel), c.maxStack)]
	user := n.user[:min(len(n.user), c.maxStack-len(kernel))]
	for _, part := range [...][]*replay.Frame{user, kernel} {
		for _, f := range slices.Backward(part) {
			if name := c.name(f, comm); name != "" {
				b = append(append(b, ';'), name...)
			}
		}
	}
	return b
}

func (c *folder) name(f *replay.Frame, comm string) string {
	if comm == "java" { // whose names are shown otherwise
		return foldedFrame(f.Symbol(), f.DSO(), true)
	}
	if f.ID >= len(c.names) {
		c.names = append(c.names, make([]string, 1+f.ID)...)
	}
	if c.names[f.ID] == "" {
		c.names[f.ID] = foldedFrame(f.Symbol(), f.DSO(), false)
	}
	return c.names[f.ID]
}

// foldedComm returns the command as a flame graph shows it. The Perl looks for
// two characters or more, blanks, and a number: of "kworker 1 x" it takes
// "kworker", and a name of one character takes a blank along.
func foldedComm(comm string) string {
	if comm == "" || isBlank(comm[0]) {
		return ""
	}
	if len(comm) == 1 {
		return comm + "_"
	}
	for i := 2; i < len(comm); i++ {
		rest := strings.TrimLeft(comm[i:], " ")
		number := strings.TrimLeft(rest, "0123456789/")
		if len(rest) < len(comm)-i && len(number) < len(rest) && rest[0] != '/' && (number == "" || number[0] == ' ') {
			comm = comm[:i]
			break
		}
	}
	return strings.ReplaceAll(comm, " ", "_")
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// foldedFrame returns the frame's functions, joined by ";": more than one where
// the name holds "->", which in perf's maps of JITs stands for inlining. It is
// "" for names that are left out.
func foldedFrame(symbol, dsoName string, java bool) string {
	if strings.HasPrefix(symbol, "(") {
		return ""
	}
	names := strings.Split(symbol, "->")
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	for i, name := range names {
		if name == "[unknown]" {
			name = "[unknown]"
			if dsoName != "[unknown]" {
				name = "[" + dsoName[strings.LastIndexByte(dsoName, '/')+1:] + "]"
			}
		}
		name = tidy(name)
		if java && strings.Contains(name, "/") {
			name = strings.TrimPrefix(name, "L")
		}
		if i > 0 && !strings.Contains(name, "_[i]") {
			name += "_[i]"
		}
		names[i] = name
	}
	return strings.Join(names, ";")
}

// tidy cuts a name down to what a flame graph shows: without parameters, unless
// it looks like a Go method ("http.(*Client).Do"), and without quotes.
func tidy(name string) string {
	name = strings.ReplaceAll(name, ";", ":")
	if !isGoMethod(name) {
		const anonymous = "(anonymous namespace)"
		for i := 0; i < len(name); i++ {
			if name[i] == '(' && !strings.HasPrefix(name[i:], anonymous) {
				name = name[:i]
			}
		}
	}
	return quotes.Replace(name)
}

var quotes = strings.NewReplacer(`"`, "", "'", "")

// isGoMethod tells whether the name has ".(" and, later, ").".
func isGoMethod(name string) bool {
	_, rest, ok := strings.Cut(name, ".(")
	return ok && strings.Contains(rest, ").")
}
