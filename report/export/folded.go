package export

import (
	"bufio"
	"cmp"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/intern"
	"gperf/internal/parallel"
	"gperf/internal/session"
)

// FoldedOptions are the options of stackcollapse-perf.pl, and Tidy.
type FoldedOptions struct {
	// Tidy writes names as stackcollapse-perf.pl does: without the parameters of functions, without functions whose
	// name begins with "(", without threads with no name or a name that begins with a blank, and with numbers in the
	// names of threads read as IDs.
	Tidy   bool
	PID    bool // the command is comm-pid; for Set.Processes
	TID    bool // the command is comm-pid/tid; for Set.Processes and Threads
	Kernel bool // functions of the kernel and of modules end with _[k]
	JIT    bool // functions of /tmp/perf-PID.map end with _[j]
	Addrs  bool // functions without a name appear as an address
	Inline bool // functions that were inlined into others are shown
	// Event counts every event, with the event's name before the command.
	Event bool
}

// Folded writes a line for each distinct stack, sorted: the
// values of Set.By as "key=value", the command, the functions from the outermost to the innermost, joined by ";",
// and the sum of the periods. Names are whole, except with FoldedOptions.Tidy; blanks in the names of threads are "_",
// semicolons are ":", and a thread without a name is "[unnamed]". With Tidy, the lines equal the output of
// stackcollapse-perf.pl for perf's text. In any case:
//
//   - only samples with a callchain count;
//   - a sample of a tracepoint counts as 1, regardless of the period;
//   - of other events only the first one in the file counts, unless
//     FoldedOptions.Event is set.
//
// The stack of a wait continues with "woken by COMMAND", of one for a CPU with "after COMMAND", and the waker's stack.
//
// With a baseline, a line contains two numbers as difffolded.pl -n writes them: the baseline's,
// scaled, and the other.
//
// Differences: functions without names appear as DSO and vaddr of the start (openssl+0x1a2b0),
// except with FoldedOptions.Addrs; a DSO name with " (" ("prog (deleted)") is parsed correctly, inlined
// functions are written like the others, and line breaks in names are escaped (\n).
func (c *StackSet) Folded(w io.Writer, opts FoldedOptions) error {
	if opts.Inline {
		session.LookUpCalls(allFrames(c))
	}
	f := newFolder(c, opts)
	const block = 4096
	err := parallel.InOrder((len(c.tallies.List)+block-1)/block, func(i int) *foldedBlock {
		return f.block(c.tallies.List[i*block : min((i+1)*block, len(c.tallies.List))])
	}, func(_ int, b *foldedBlock) error {
		f.add(b)
		f.blocks.Put(b)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	return f.write(w)
}

// folder makes the lines of stacks. A line is a list of the numbers of names: most stacks differ in few of many. All
// CPUs make the lists, of names that newFolder found.
type folder struct {
	set *StackSet
	FoldedOptions
	event int32 // of those that are no tracepoints, the one that is folded

	names   []string // none contains a semicolon
	numbers map[string]int32
	roots   map[*subject]root
	known   [2]frameNames      // by root.java
	woken   map[string][]int32 // the names between the stacks of a wait and the waker, by Waker.Text

	lines  []foldedLine
	index  intern.Table // of lines
	free   []int32      // memory for lines
	blocks sync.Pool    // of foldedBlock, whose memory is used again
}

// root is how the lines of a subject begin.
type root struct {
	names []int32 // before the callchain; nil: the stacks are left out
	java  int     // 1: Tidy writes the names of functions in another form
}

// frameNames are the numbers of frames' names.
type frameNames struct {
	frames session.ByFrame[[]int32]
	leaves map[*session.Frame][]int32 // of stacks without a callchain
}

type foldedLine struct {
	names []int32
	sums  [2]uint64 // of the baseline, of the others
}

// foldedBlock is the lines of consecutive tallies.
type foldedBlock struct {
	tallies []*tally
	parts   []int32
	ends    []int // in parts
	hashes  []uint32
}

// newFolder numbers the names of all frames.
func newFolder(c *StackSet, opts FoldedOptions) *folder {
	f := &folder{set: c, FoldedOptions: opts, event: c.foldedEvent(), numbers: map[string]int32{},
		roots: map[*subject]root{}, woken: map[string][]int32{},
		blocks: sync.Pool{New: func() any { return new(foldedBlock) }}}
	for java := range f.known {
		k := &f.known[java]
		k.frames, k.leaves = session.ByFrame[[]int32]{}, map[*session.Frame][]int32{}
		for frame, in := range session.FramesOf(f.chains(java, k)) {
			k.frames.Set(in, frame, f.numbersOf(f.text(frame, java > 0)))
		}
	}
	return f
}

// chains yields the callchains that are shown, of java or of all others. It sets the names besides those of their
// frames.
func (c *folder) chains(java int, k *frameNames) iter.Seq[session.Chain] {
	return func(yield func(session.Chain) bool) {
		add := func(stack session.StackKey) bool {
			if f := stack.Leaf; f != nil && k.leaves[f] == nil {
				k.leaves[f] = c.numbersOf(c.text(f, java > 0))
			}
			return yield(stack.Chain.Cut(c.set.MaxStack))
		}
		for _, t := range c.set.tallies.List {
			if !c.folds(t) {
				continue
			}
			of, ok := c.roots[t.Of]
			if !ok {
				of = c.root(t)
				c.roots[t.Of] = of
			}
			if of.java != java {
				continue
			}
			if t.Leaf == nil && !add(t.StackKey) {
				return
			}
			if by := t.Of.waker; by != nil {
				if c.woken[by.Text()] == nil {
					c.woken[by.Text()] = c.numbersOf(c.text(c.set.wakers.of(by), java > 0))
				}
				if !add(by.StackKey()) {
					return
				}
			}
		}
	}
}

// root returns how the lines of a stack begin. With Tidy, stacks are left out whose command the Perl script does not
// match.
func (c *folder) root(t *tally) (r root) {
	comm := c.thread(t)
	if comm == "" {
		return root{}
	}
	if c.Tidy && comm == "java" {
		r.java = 1
	}
	if c.Event {
		r.names = append(r.names, c.numbersOf(strings.ReplaceAll(c.set.events[t.Of.event].name, ";", ":"))...)
	}
	for _, v := range t.Of.group.Values {
		r.names = append(r.names, c.numbersOf(separators.Replace(v.Key+"="+v.Text))...)
	}
	r.names = append(r.names, c.numbersOf(lineBreaks.Replace(comm))...)
	return r
}

// numbersOf numbers names that are separated by semicolons.
func (c *folder) numbersOf(text string) (list []int32) {
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ";") {
		list = append(list, intern.Index(c.numbers, &c.names, name))
	}
	return list
}

// block makes the lines of tallies. Any goroutine may call it.
func (c *folder) block(tallies []*tally) *foldedBlock {
	b := c.blocks.Get().(*foldedBlock)
	b.tallies, b.parts, b.ends, b.hashes = b.tallies[:0], b.parts[:0], b.ends[:0], b.hashes[:0]
	for _, t := range tallies {
		root := c.roots[t.Of]
		if !c.folds(t) || root.names == nil {
			continue
		}
		start := len(b.parts)
		b.parts = append(b.parts, root.names...)
		if t.Leaf == nil { // else the callchain is empty
			k := &c.known[root.java]
			b.parts = c.appendStack(b.parts, k, t.StackKey)
			if by := t.Of.waker; by != nil {
				b.parts = append(b.parts, c.woken[by.Text()]...)
				b.parts = c.appendStack(b.parts, k, by.StackKey())
			}
		}
		h := uint32(0)
		for _, n := range b.parts[start:] {
			h = (h ^ uint32(n)) * 0x9e3779b1
			h ^= h >> 15
		}
		b.tallies, b.ends, b.hashes = append(b.tallies, t), append(b.ends, len(b.parts)), append(b.hashes, h)
	}
	return b
}

// appendStack appends the numbers of a stack's names, the outermost first.
func (c *folder) appendStack(line []int32, k *frameNames, stack session.StackKey) []int32 {
	if stack.Leaf != nil {
		return append(line, k.leaves[stack.Leaf]...)
	}
	chain, names := stack.Chain.Cut(c.set.MaxStack), k.frames[stack.Chain.In]
	for _, part := range [...]session.Part{chain.User, chain.Kernel} {
		for _, id := range slices.Backward(part.IDs) {
			line = append(line, names[id]...)
		}
	}
	return line
}

// add adds the tallies of a block to their lines.
func (c *folder) add(b *foldedBlock) {
	start := 0
	for i, t := range b.tallies {
		line := b.parts[start:b.ends[i]]
		start = b.ends[i]
		n, added := c.index.Add(b.hashes[i], func(n int32) bool { return slices.Equal(c.lines[n].names, line) })
		if added {
			c.lines = append(c.lines, foldedLine{names: c.keep(line)})
		}
		e := &c.set.events[t.Of.event]
		if sums := &c.lines[n].sums; t.Of.base {
			sums[0] += scaled(e.weightOf(t), e.base.weight, e.weight)
		} else {
			sums[1] += e.weightOf(t)
		}
	}
}

// keep returns a copy of a line. Copies share blocks of memory.
func (c *folder) keep(line []int32) []int32 {
	if len(line) > len(c.free) {
		c.free = make([]int32, max(len(line), 1<<16))
	}
	own := c.free[:len(line):len(line)]
	c.free = c.free[copy(own, line):]
	return own
}

// write writes the lines in the order of texts.
func (c *folder) write(w io.Writer) error {
	slices.SortFunc(c.lines, c.compare)
	out := bufio.NewWriterSize(w, 1<<16)
	var b []byte
	for i := range c.lines {
		l := &c.lines[i]
		b = b[:0]
		for _, n := range l.names {
			b = append(append(b, c.names[n]...), ';')
		}
		b[len(b)-1] = ' '
		if c.set.differs() {
			b = append(strconv.AppendUint(b, l.sums[0], 10), ' ')
		}
		b = append(strconv.AppendUint(b, l.sums[1], 10), '\n')
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Flush()
}

// compare compares the texts of lines.
func (c *folder) compare(a, b foldedLine) int {
	x, y := a.names, b.names
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	if n == min(len(x), len(y)) {
		return len(x) - len(y)
	}
	s, t := c.names[x[n]], c.names[y[n]]
	short := min(len(s), len(t))
	switch {
	case s[:short] != t[:short]:
		return strings.Compare(s, t)
	case len(s) < len(t):
		return after(n+1 < len(x), t[short])
	}
	return -after(n+1 < len(y), s[short])
}

// after compares the character after a name, a semicolon or none, with a byte of a longer name.
func after(more bool, b byte) int {
	if more && ';' > b {
		return 1
	}
	return -1
}

// folds reports whether the stack is shown.
func (c *folder) folds(t *tally) bool {
	return t.Of.chained && (c.Event || c.set.events[t.Of.event].tracepoint || c.event == t.Of.event)
}

// foldedEvent returns the first event with callchains that is no tracepoint, -1 if
// there is none.
func (c *StackSet) foldedEvent() int32 {
	for _, t := range c.tallies.List {
		if t.Of.chained && !c.events[t.Of.event].tracepoint && !c.events[t.Of.event].waker {
			return t.Of.event
		}
	}
	return -1
}

// NotFolded returns the events with callchains that Folded leaves out without
// FoldedOptions.Event, and the number of samples in them.
func (c *StackSet) NotFolded() (events []string, samples uint64) {
	folded := c.foldedEvent()
	left := map[int32]bool{}
	for _, t := range c.tallies.List {
		if e := &c.events[t.Of.event]; !t.Of.chained || t.Of.event == folded || e.tracepoint || e.waker {
			continue
		}
		if !left[t.Of.event] {
			events = append(events, c.events[t.Of.event].name)
		}
		left[t.Of.event] = true
		samples += t.Sum.samples
	}
	return events, samples
}

// weightOf returns the weight of a stack's samples: without a field, each counts at least 1, and
// samples of tracepoints except spans exactly 1.
func (e *stackEvent) weightOf(t *tally) uint64 {
	switch {
	case e.field != "":
		return t.Sum.period
	case e.counted():
		return t.Sum.samples
	}
	return t.Sum.period + t.Sum.zeroPeriods
}

// thread returns the text of the stack's thread, "" for one that is left out.
func (c *folder) thread(t *tally) string {
	comm, pid, tid := wholeComm(t.Of.comm), strconv.Itoa(int(t.Of.pid)), strconv.Itoa(int(t.Of.tid))
	if c.Tidy {
		var number string
		if comm, number = tidyComm(t.Of.comm); comm == "" {
			return ""
		}
		pid, tid = tidyIDs(pid, tid, number)
	}
	switch {
	case c.TID:
		return comm + "-" + pid + "/" + tid
	case c.PID:
		return comm + "-" + pid
	}
	return comm
}

// tidyIDs returns IDs as the Perl script does: it takes a number in the command for them, and ignores the thread ID 0,
// because it reads "swapper 0/0" as one number.
func tidyIDs(pid, tid, number string) (string, string) {
	if number != "" {
		pid, tid, _ = strings.Cut(number, "/")
	}
	if tid = strings.TrimLeft(tid, "/"); tid == "" || tid == "0" {
		return "?", pid
	}
	return pid, tid
}

// text returns the names of the frame's functions, joined by semicolons.
func (c *folder) text(f *session.Frame, java bool) string {
	mark := ""
	switch module := f.DSO(); {
	case f.Kind() == session.KindRuntime:
		mark = c.jitMark()
	case c.Kernel && isKernelModule(module):
		mark = "_[k]"
	case perfMap.MatchString(module):
		mark = c.jitMark()
	}
	unnamed := ""
	if c.Addrs {
		unnamed = " <" + strconv.FormatUint(f.IP, 16) + ">"
	}
	symbol := f.Symbol()
	if symbol == "[unknown]" && !c.Addrs {
		symbol = cmp.Or(f.StartName(), symbol)
	}
	own := c.frame(symbol, f.DSO(), unnamed, mark, java)
	if !c.Inline {
		return own
	}
	names := []string{own}
	for _, fn := range slices.Backward(f.Functions(true)) {
		if fn.Inlined {
			names = append(names, c.frame(fn.Name, f.DSO(), unnamed, mark, java))
		}
	}
	return strings.Join(slices.DeleteFunc(names, func(s string) bool { return s == "" }), ";")
}

func (c *folder) jitMark() string {
	if c.JIT {
		return "_[j]"
	}
	return ""
}

// isKernelModule reports whether the Perl script treats a DSO as the kernel or a
// module, which includes the vdso.
func isKernelModule(name string) bool {
	return (strings.HasPrefix(name, "[") || strings.HasSuffix(name, "vmlinux")) && !strings.Contains(name, "unknown")
}

var perfMap = regexp.MustCompile(`/tmp/perf-[0-9]+\.map`)

// wholeComm returns the command as a root of a flame graph.
func wholeComm(comm string) string {
	return cmp.Or(strings.ReplaceAll(lineBreaks.Replace(strings.ReplaceAll(comm, ";", ":")), " ", "_"), "[unnamed]")
}

// tidyComm returns the command as a flame graph shows it, and a number within
// the command that is read as the thread's. The Perl script matches two
// characters or more, blanks, and a number: "kworker 1 x" becomes "kworker", and
// a name of one character includes the blank after it.
func tidyComm(comm string) (name, number string) {
	if comm == "" || isBlank(comm[0]) {
		return "", ""
	}
	if len(comm) == 1 {
		return comm + "_", ""
	}
	for i := 2; i < len(comm); i++ {
		rest := strings.TrimLeft(comm[i:], " ")
		after := strings.TrimLeft(rest, "0123456789/")
		isNumber := len(after) < len(rest) && rest[0] != '/' && (after == "" || after[0] == ' ')
		if isNumber && len(rest) < len(comm)-i {
			comm, number = comm[:i], rest[:len(rest)-len(after)]
			break
		}
	}
	return strings.ReplaceAll(comm, " ", "_"), number
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// frame returns the frame's functions, joined by ";": more than one where
// the name of a JIT's function holds "->", which means inlining in perf's maps. It is "" for
// names that are left out. unnamed follows the DSO of frames without a name, mark
// follows functions.
func (o *FoldedOptions) frame(symbol, dsoName, unnamed, mark string, java bool) string {
	if o.Tidy && strings.HasPrefix(symbol, "(") {
		return ""
	}
	names := []string{symbol}
	if o.Tidy || perfMap.MatchString(dsoName) {
		names = strings.Split(symbol, "->")
	}
	for len(names) > 0 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	for i, name := range names {
		switch {
		case name == "[unknown]":
			name = "[" + foldedDSO(dsoName) + unnamed + "]"
		case o.Tidy && !dso.IsFunctions(dsoName): // a name of Ruby's: block (2 levels) in run
			name = tidyCall(name)
		}
		name = o.escape(name)
		if java && strings.Contains(name, "/") {
			name = strings.TrimPrefix(name, "L")
		}
		if i > 0 {
			mark = "_[i]"
		}
		if !strings.Contains(name, mark) { // a JIT's map may mark it already
			name += mark
		}
		names[i] = name
	}
	return strings.Join(names, ";")
}

// escape replaces characters with a meaning in folded stacks, and with Tidy also in programs that read them.
func (o *FoldedOptions) escape(name string) string {
	if o.Tidy {
		return separators.Replace(name)
	}
	return strings.ReplaceAll(lineBreaks.Replace(name), ";", ":")
}

// foldedDSO names the functions of a file that have no names.
func foldedDSO(name string) string {
	if name == "[unknown]" {
		return "unknown"
	}
	return dso.TrimDeleted(name[strings.LastIndexByte(name, '/')+1:])
}

// tidyCall leaves out a function's parameters, unless it looks like a Go method
// ("http.(*Client).Do").
func tidyCall(name string) string {
	if isGoMethod(name) {
		return name
	}
	const anonymous = "(anonymous namespace)"
	for i := range len(name) {
		if name[i] == '(' && !strings.HasPrefix(name[i:], anonymous) {
			return name[:i]
		}
	}
	return name
}

// separators and quotes have a meaning in folded stacks or in programs that read them.
var (
	separators = strings.NewReplacer(";", ":", `"`, "", "'", "", "\n", `\n`, "\r", `\r`)
	lineBreaks = strings.NewReplacer("\n", `\n`, "\r", `\r`)
)

// isGoMethod reports whether the name has ".(" and, later, ").".
func isGoMethod(name string) bool {
	_, rest, ok := strings.Cut(name, ".(")
	return ok && strings.Contains(rest, ").")
}
