package stacks

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/dso"
	"gperf/internal/procmem"
	"gperf/internal/runtimes"
	"gperf/record/names"
	"gperf/record/synth"
	"gperf/unwind"
)

// interpreter is the runtime of an address space whose functions are named.
type interpreter struct {
	file    *mappedFile // the program or library that contains it
	process runtimes.Process
	retry   retry
	renew   time.Time // when to check bound
	bias    uint64
	number  uint32 // in BPF
	codes   map[codeID]place
	bound   map[runtimes.NativeFrame]runtimes.Bound // of a runtimes.Native
}

// again schedules another read of the functions that an interpreter lacks, for the samples until then. The
// recorder is woken for this, once for all interpreters that fail meanwhile.
func (n *interpreted) again(in *interpreter) {
	now := time.Now()
	if in.retry.fail(now) && n.wake != nil && n.wakeAt.Before(now) {
		n.wakeAt = now.Add(in.retry.pause)
		time.AfterFunc(in.retry.pause, n.wake)
	}
}

// forgetUnread makes the functions that could not be read unknown, if it is time to try them again.
func (in *interpreter) forgetUnread() {
	if in.retry.failed.IsZero() || !in.retry.due(time.Now()) { // no clock is read for most samples
		return
	}
	maps.DeleteFunc(in.codes, func(_ codeID, at place) bool { return at.ip == 0 })
	maps.DeleteFunc(in.bound, func(_ runtimes.NativeFrame, b runtimes.Bound) bool { return b.Partial })
}

// codeID identifies a code object of an address space.
type codeID struct {
	addr  uint64
	check uint32
}

// place is the place of a function in the mapping of functions; ip is 0 if the function could not be read.
type place struct {
	ip   uint64
	size uint32
}

// maxCodes limits the known code objects of an address space. Programs that make functions all the time exceed
// this limit.
const maxCodes = 1 << 16

// findInterpreter finds the interpreter of an address space, and passes it to BPF.
func (g *registry) findInterpreter(s *addrSpace) {
	if !g.interpreters {
		return
	}
	for r := range s.maps.All() {
		m := &r.Value
		if m.file.state != fileReady || m.file.runtime == nil {
			continue
		}
		bias, ok := m.bias()
		if !ok {
			continue
		}
		if s.interpreter != nil && s.interpreter.file == m.file && s.interpreter.bias == bias {
			return
		}
		g.dropInterpreter(s)
		w := m.file.runtime.Walk(bias)
		number, err := g.bpf.AddRuntime(&w)
		if err != nil {
			g.verbose(err.Error())
			return
		}
		s.interpreter = &interpreter{file: m.file, process: m.file.runtime.In(bias), bias: bias, number: number,
			codes: map[codeID]place{}}
		return
	}
	g.dropInterpreter(s)
}

// dropInterpreter removes the interpreter of an address space, as soon as BPF does not use it any more.
func (g *registry) dropInterpreter(s *addrSpace) {
	if s.interpreter != nil {
		g.unusedInterpreters = append(g.unusedInterpreters, s.interpreter.number)
		s.interpreter = nil
	}
}

// interpreterNumber returns the number of the interpreter in BPF, 0 if there is none.
func (s *addrSpace) interpreterNumber() uint32 {
	if s.interpreter == nil {
		return 0
	}
	return s.interpreter.number
}

// interpreted puts the functions of interpreters into stacks.
type interpreted struct {
	procs   *registry
	set     *names.Set
	count   InterpretedCounts
	carry   bool      // the recording contains the files with functions
	noCache bool      // Options.NoCache
	wake    func()    // makes the recorder drain the rings; nil: it is not woken
	wakeAt  time.Time // the next call of wake, or the last one

	missing map[use]uint64 // mappings that the recording lacks, with the times of the first samples in them

	groups [][]runtimes.Interpreted // reused
	list   []runtimes.Interpreted
	words  []byte
}

// use is the use of a file with functions by a process.
type use struct {
	pid  int32
	file int
}

// InterpretedCounts count the frames of interpreters.
type InterpretedCounts struct {
	Named     uint64
	Unnamed   uint64 // the function could not be read, or changed before it was
	Denied    bool   // the memory of a process may not be read
	Full      bool   // more functions than a recording can hold
	Functions int
	Unknown   []string // why sampled interpreters are not understood
}

// insert returns a stack's words with the interpreted frames inserted: after each native frame of the
// interpreter's function, the frames of the functions that it runs. The result is valid until the next call.
func (n *interpreted) insert(pid int32, time uint64, head *bpf.Head, data []byte) []byte {
	frames := data[:8*head.Frames]
	p := n.procs.tracker.byPID[pid]
	if p == nil || p.space.interpreter == nil || p.execSeq != head.Exec {
		n.count.Unnamed += uint64(head.Interpreted)
		return frames
	}
	in := p.space.interpreter
	in.forgetUnread()
	n.decode(data[8*head.Frames:][:16*head.Interpreted])
	if native, ok := in.process.(runtimes.Native); ok {
		return n.bind(p, native, frames, head.Generation, time)
	}
	skip := in.skipped(p.space, frames, len(n.groups), head.End)
	n.words = n.words[:0]
	next := 0
	add := func(until int) {
		for ; next < min(until, len(n.groups)); next++ {
			for _, f := range n.groups[next] {
				n.add(p, in, f, time)
			}
		}
	}
	seen := 0
	for i := 0; i < len(frames); i += 8 {
		ip := binary.LittleEndian.Uint64(frames[i:])
		is := in.runs(ip, i > 0)
		if is && seen == 0 {
			add(skip)
		}
		n.words = append(n.words, frames[i:i+8]...)
		if is {
			seen++
			add(skip + seen)
		}
	}
	add(len(n.groups))
	return n.words
}

// Interpret returns the frames of a stack that a program sent as output o, including the interpreted frames.
func (j *Merged) Interpret(o Output, s *bpf.Stack) []byte {
	pid := int32(o.TID)
	head := bpf.Head{End: bpf.EndEntry, Frames: uint32(len(s.User) / 8), Interpreted: uint32(len(s.Interpreted) / 16),
		Generation: s.Generation}
	if !j.names.applies(pid, &head) {
		return s.User
	}
	p := j.names.procs.tracker.byPID[pid]
	if p == nil {
		return s.User
	}
	head.Exec = p.execSeq
	return bytes.Clone(j.names.insert(pid, o.Time, &head, slices.Concat(s.User, s.Interpreted)))
}

// need notes that a sample of a process needs the mappings of the functions in these frames.
func (n *interpreted) need(pid int32, time uint64, frames []byte) {
	p := n.procs.tracker.byPID[pid]
	for ; p != nil && len(frames) >= 8; frames = frames[8:] {
		if ip := binary.LittleEndian.Uint64(frames); ip-dso.FunctionsBase < dso.FunctionsBase {
			n.note(p, ip, time)
		}
	}
}

// note notes that a sample of a process needs the mapping of a function.
func (n *interpreted) note(p *process, ip, time uint64) {
	file := names.FileOf(ip)
	if p.mapped[file] {
		return
	}
	u := use{p.pid, file}
	if first, ok := n.missing[u]; !ok || time < first {
		n.missing[u] = time
	}
}

// decode divides the interpreted frames of a stack into groups, one for each native frame.
func (n *interpreted) decode(b []byte) {
	le := binary.LittleEndian
	n.list, n.groups = n.list[:0], n.groups[:0]
	for ; len(b) >= 16; b = b[16:] {
		n.list = append(n.list, runtimes.NewInterpreted(le.Uint64(b), le.Uint64(b[8:])))
	}
	from := 0
	for i, f := range n.list {
		if f.First || i == len(n.list)-1 {
			n.groups = append(n.groups, n.list[from:i+1])
			from = i + 1
		}
	}
}

// skipped returns how many groups of functions come before the first native frame that runs some; -1 means that
// this frame runs none. The outermost group belongs to the outermost native frame: the first native frame may be
// missing, if it is in the part of the function that no symbol names, or the frame's group may be missing, if it
// is not known yet. The innermost group belongs to the innermost native frame if there may be native frames of
// functions that are not in the list, or if the walk ended early, or if the list contains functions that run on
// other native stacks.
func (in *interpreter) skipped(s *addrSpace, frames []byte, groups int, end bpf.End) int {
	skip := groups - in.calls(frames)
	if end != bpf.EndEntry {
		return 0
	}
	if r, ok := in.process.(runtimes.Resumed); ok && r.Resumes() && skip > 0 && s.endsInFiber(frames) {
		return 0
	}
	sw, ok := in.process.(runtimes.Switched)
	switch {
	case !ok || skip >= 0:
		return skip
	case sw.Entering(binary.LittleEndian.Uint64(frames)):
		return -1
	}
	return 0
}

// endsInFiber reports whether the last frame of a complete stack is where fibers begin.
func (s *addrSpace) endsInFiber(frames []byte) bool {
	if len(frames) < 16 {
		return false
	}
	at := binary.LittleEndian.Uint64(frames[len(frames)-8:]) - 1 // a return address
	m := s.find(at)
	if m == nil || m.file.state != fileReady || m.file.table == nil {
		return false
	}
	bias, ok := m.bias()
	return ok && m.file.table.Lookup(at-bias).Flags&unwind.FlagFiber != 0
}

// calls returns the number of native frames that run functions of the interpreter.
func (in *interpreter) calls(frames []byte) (calls int) {
	for i := 0; i < len(frames); i += 8 {
		if in.runs(binary.LittleEndian.Uint64(frames[i:]), i > 0) {
			calls++
		}
	}
	return calls
}

// runs reports whether an address is in the native code that runs functions of the interpreter.
func (in *interpreter) runs(ip uint64, returned bool) bool {
	if returned {
		ip--
	}
	l, ok := in.process.(runtimes.List)
	return ok && l.Runs(ip)
}

// at returns the place of a function.
func (n *interpreted) at(p *process, in *interpreter, f runtimes.Interpreted) place {
	at, ok := in.codes[codeID{f.Code, f.Check}]
	if !ok {
		if at = n.read(p.pid, in, f); at.ip == 0 {
			n.again(in)
		}
		if len(in.codes) >= maxCodes {
			clear(in.codes)
		}
		in.codes[codeID{f.Code, f.Check}] = at
	}
	return at
}

// add adds an interpreted frame to the words of a stack.
func (n *interpreted) add(p *process, in *interpreter, f runtimes.Interpreted, time uint64) {
	at := n.at(p, in, f)
	if at.ip == 0 {
		n.count.Unnamed++
		return
	}
	n.count.Named++
	n.note(p, at.ip, time)
	n.words = binary.LittleEndian.AppendUint64(n.words, names.IP(at.ip, at.size, f.Off))
}

// read reads a function from the memory of a process.
func (n *interpreted) read(pid int32, in *interpreter, f runtimes.Interpreted) (at place) {
	fn, err := in.process.Function(procmem.Reader(pid), f)
	if err != nil {
		n.unread(err)
		return place{}
	}
	ip, ok := n.set.Add(in.file.runtime.DSO(), fn)
	if !ok {
		n.count.Full = true
		return place{}
	}
	return place{ip, fn.Size}
}

// unread notes why memory of a process could not be read.
func (n *interpreted) unread(err error) {
	if errors.Is(err, unix.EPERM) || errors.Is(err, fs.ErrPermission) {
		n.count.Denied = true
	}
}

// describe adds the mappings of functions that samples need and the recording lacks, with a time before those samples,
// and the functions if the recording contains them.
func (n *interpreted) describe(j *Merged, idSize int) {
	if len(n.missing) == 0 {
		return
	}
	at := uint64(math.MaxUint64)
	for _, u := range slices.SortedFunc(maps.Keys(n.missing), func(a, b use) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.file, b.file))
	}) {
		first := n.missing[u] - 1
		at = min(at, first)
		m := n.set.Mapping(u.pid, u.file)
		m.ID.Time = first
		j.Records = synth.AppendAt(j.Records, m, idSize)
		if p := n.procs.tracker.byPID[u.pid]; p != nil {
			if p.mapped == nil {
				p.mapped = map[int]bool{}
			}
			p.mapped[u.file] = true
		}
	}
	clear(n.missing)
	if !n.carry {
		return
	}
	from := len(j.Records)
	for _, r := range n.set.Complete() {
		j.Records = r.Append(j.Records, idSize)
	}
	synth.Stamp(j.Records[from:], idSize, at)
	if !n.noCache {
		n.set.Save() // Save tries again, and returns the error
	}
}

// NewFile makes the recorder write the mappings of functions to another file of the recording, too.
func (r *Recorder) NewFile() {
	for _, p := range r.procs.tracker.byPID {
		p.mapped = nil
	}
}

// Save stores the names and lines of the functions of interpreters, and copies of the programs and libraries that
// may be deleted later, so that readers find them. It returns which copies it stored since the recording began,
// and the open perf maps and jitdumps of processes in other namespaces, which the caller closes.
func (r *Recorder) Save() (kept dso.Kept, held []dso.Generated, err error) {
	if r.tables.builder != nil {
		kept, err = r.tables.builder.keeper.store()
		r.procs.tracker.reopenGenerated()
		held = r.tables.builder.keeper.takeGenerated()
	}
	if r.names == nil || r.opts.NoCache {
		return kept, held, err
	}
	return kept, held, errors.Join(r.names.set.Save(), err)
}

// counts returns the counts, with the interpreters of files that are not understood.
func (n *interpreted) counts() InterpretedCounts {
	c := n.count
	c.Functions = n.set.Len()
	for _, f := range n.procs.tracker.files {
		if f.noRuntime != nil {
			c.Unknown = append(c.Unknown, f.noRuntime.Error())
		}
	}
	slices.Sort(c.Unknown)
	c.Unknown = slices.Compact(c.Unknown)
	return c
}
