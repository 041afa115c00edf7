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
	bias    uint64
	number  uint32 // in BPF
	codes   map[codeID]place
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

// forgetUnread makes the functions that could not be read whole due, and returns true, if it is time to try them again.
func (in *interpreter) forgetUnread() bool {
	if in.retry.failed.IsZero() || !in.retry.due(time.Now()) { // no clock is read for most samples
		return false
	}
	for id, at := range in.codes {
		switch {
		case at.ip == 0:
			delete(in.codes, id)
		case at.partial():
			at.due = true
			in.codes[id] = at
		}
	}
	return true
}

// codeID identifies a code object of an address space.
type codeID struct {
	addr  uint64
	check uint32
}

// place is the place of a function in the mapping of functions; ip is 0 if the function could not be read.
type place struct {
	ip    uint64
	size  uint32
	tries uint8 // how often a part of the function could not be read
	due   bool  // for another try
}

// maxPartial is how often a function is read of which a part cannot be read.
const maxPartial = 5

// partial reports whether another try may find more of the function.
func (at place) partial() bool { return at.tries > 0 && at.tries < maxPartial }

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

	stack runtimes.Stack // reused
	words []byte
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

// insert returns the native frames of a stack with the functions that belong to the interpreted frames in passed. The
// result is valid until the next call.
func (n *interpreted) insert(pid int32, time uint64, head *bpf.Head, native, passed []byte) []byte {
	if n == nil {
		return native
	}
	p := n.procs.tracker.byPID[pid]
	if p == nil || p.space.interpreter == nil || p.execSeq != head.Exec {
		n.count.Unnamed += uint64(head.Interpreted)
		return native
	}
	return n.frames(p, time, head, native, passed)
}

// frames returns the frames of a stack of a process with an interpreter.
func (n *interpreted) frames(p *process, time uint64, head *bpf.Head, native, passed []byte) []byte {
	in, s := p.space.interpreter, &n.stack
	s.Mem, s.Native, s.Complete, s.Generation = p, native, head.End == bpf.EndEntry, head.Generation
	s.Retry = in.forgetUnread()
	s.Decode(passed)
	parts := in.process.Frames(s)
	if parts == nil {
		return native
	}
	n.words = n.words[:0]
	for i := range parts {
		n.addPart(p, time, &parts[i])
	}
	return n.words
}

// addPart adds a part of a stack to the words of the stack.
func (n *interpreted) addPart(p *process, time uint64, part *runtimes.Part) {
	for _, f := range part.Others {
		n.at(p, f)
	}
	if part.Err != nil {
		n.unread(part.Err)
		n.count.Unnamed++
	}
	if part.Partial {
		n.again(p.space.interpreter)
	}
	kept := len(part.Native)
	if part.Replaces {
		kept -= 8
	}
	n.words = append(n.words, part.Native[:kept]...)
	before := len(n.words)
	for _, f := range part.Functions {
		n.add(p, f, time)
	}
	if len(n.words) == before { // no function is named
		n.words = append(n.words, part.Native[kept:]...)
	}
}

// walked returns the frames of a stack that was walked in Go, with the functions that can be read from generated
// code alone: BPF passed none.
func (n *interpreted) walked(u *unresolvedSample, native []byte) []byte {
	if n == nil || u.space == nil || u.space.interpreter == nil {
		return native
	}
	p := n.procs.tracker.byPID[u.pid]
	if p == nil || p.space != u.space {
		return native
	}
	return n.frames(p, u.time, &u.head, native, nil)
}

// Interpret returns the frames of a stack that a program sent as output o, including the interpreted frames.
func (j *Merged) Interpret(o Output, s *bpf.Stack) []byte {
	if j.names == nil {
		return s.User
	}
	pid := int32(o.TID)
	p := j.names.procs.tracker.byPID[pid]
	if p == nil {
		return s.User
	}
	head := bpf.Head{End: bpf.EndEntry, Exec: p.execSeq, Interpreted: uint32(len(s.Interpreted) / 16),
		Generation: s.Generation}
	return bytes.Clone(j.names.insert(pid, o.Time, &head, s.User, s.Interpreted))
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

// ReadAt implements runtimes.Memory.
func (p *process) ReadAt(b []byte, addr int64) (int, error) {
	return procmem.Reader(p.pid).ReadAt(b, addr)
}

// ReadEach implements procmem.Vector.
func (p *process) ReadEach(parts [][]byte, addrs []uint64) int {
	return procmem.Reader(p.pid).ReadEach(parts, addrs)
}

// Generated implements runtimes.Memory.
func (p *process) Generated(ip uint64) bool {
	m := p.space.find(ip)
	return m != nil && (m.file.state == fileMade || m.file.vm != nil || m.file.jit != nil)
}

// BeginsFiber implements runtimes.Memory.
func (p *process) BeginsFiber(ip uint64) bool {
	m := p.space.find(ip)
	if m == nil || m.file.state != fileReady || m.file.table == nil {
		return false
	}
	bias, ok := m.bias()
	return ok && m.file.table.Lookup(ip-bias).Flags&unwind.FlagFiber != 0
}

// at returns the place of a function.
func (n *interpreted) at(p *process, f runtimes.Interpreted) place {
	in := p.space.interpreter
	at, ok := in.codes[codeID{f.Code, f.Check}]
	if !ok || at.due {
		if at = n.read(p, f, at); at.ip == 0 || at.partial() {
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
func (n *interpreted) add(p *process, f runtimes.Interpreted, time uint64) {
	at := n.at(p, f)
	if at.ip == 0 {
		n.count.Unnamed++
		return
	}
	n.count.Named++
	n.note(p, at.ip, time)
	n.words = binary.LittleEndian.AppendUint64(n.words, names.IP(at.ip, at.size, f.Off))
}

// read reads a function from the memory of a process. last is its place so far, which stays if it cannot be read now.
func (n *interpreted) read(p *process, f runtimes.Interpreted, last place) place {
	in := p.space.interpreter
	last.due = false
	if last.ip != 0 {
		last.tries++
	}
	fn, err := in.process.Function(p, f)
	if err != nil {
		n.unread(err)
		return last
	}
	ip, ok := n.set.Add(in.file.runtime.DSO(), fn)
	switch {
	case !ok:
		n.count.Full = true
		return last
	case fn.Partial:
		return place{ip: ip, size: fn.Size, tries: max(last.tries, 1)}
	}
	return place{ip: ip, size: fn.Size}
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
