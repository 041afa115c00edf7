package stacks

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/runtimes"
	"gperf/record/functions"
	"gperf/record/synth"
)

// interpreter is CPython's interpreter in an address space.
type interpreter struct {
	file   *mappedFile // the program or library that has it
	bias   uint64
	number uint32 // in BPF
	codes  map[codeID]place
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

// maxCodes limits the known code objects of an address space. Programs that make functions all the time have more.
const maxCodes = 1 << 16

// readPython finds the interpreter in the file, if its name says that it may have one.
func (f *mappedFile) readPython() {
	if !runtimes.MayHavePython(f.name) {
		return
	}
	f.python, f.noPython = runtimes.FindPython(f.im)
}

// findPython finds the interpreter of an address space, and passes it to BPF.
func (g *registry) findPython(s *addrSpace) {
	if !g.interpreters {
		return
	}
	for r := range s.maps.All() {
		m := &r.Value
		if m.file.python == nil || m.file.state != fileReady {
			continue
		}
		bias, ok := m.bias()
		if !ok {
			continue
		}
		if s.python != nil && s.python.file == m.file && s.python.bias == bias {
			return
		}
		g.dropPython(s)
		w := m.file.python.Walk
		w.Head += bias
		number, err := g.bpf.AddPython(&w)
		if err != nil {
			g.verbose(err.Error())
			return
		}
		s.python = &interpreter{file: m.file, bias: bias, number: number, codes: map[codeID]place{}}
		return
	}
	g.dropPython(s)
}

// dropPython removes the interpreter of an address space, as soon as BPF does not use it any more.
func (g *registry) dropPython(s *addrSpace) {
	if s.python != nil {
		g.unusedPythons = append(g.unusedPythons, s.python.number)
		s.python = nil
	}
}

// python returns the number of the interpreter in BPF, 0 if the address space has none.
func (s *addrSpace) pythonNumber() uint32 {
	if s.python == nil {
		return 0
	}
	return s.python.number
}

// interpreted puts the functions of interpreters into stacks.
type interpreted struct {
	procs *registry
	set   *functions.Set
	count InterpretedCounts

	groups [][]runtimes.Interpreted // reused
	list   []runtimes.Interpreted
	words  []byte
}

// InterpretedCounts count the frames of interpreters.
type InterpretedCounts struct {
	Named     uint64
	Unnamed   uint64 // the function could not be read, or changed before it was
	Denied    bool   // the memory of a process may not be read
	Full      bool   // more functions than a recording can have
	Functions int
}

// insert returns a stack's words with its interpreted frames in them: after each native frame of the interpreter's
// function, those of the Python functions that it runs. The result is valid until the next call.
func (n *interpreted) insert(pid int32, head *bpf.Head, data []byte) []byte {
	frames := data[:8*head.Frames]
	p := n.procs.byPID[pid]
	if p == nil || p.space.python == nil || p.execSeq != head.Exec {
		n.count.Unnamed += uint64(head.Interpreted)
		return frames
	}
	in := p.space.python
	n.decode(data[8*head.Frames:][:16*head.Interpreted])
	natives := in.calls(frames)
	// The first native frame may be missing, if it has not told of its Python frame yet or is in the part of the
	// function that no symbol names; the last ones, if the walk has ended early.
	skip := len(n.groups) - natives
	if head.End != bpf.EndEntry {
		skip = 0
	}
	n.words = n.words[:0]
	next := 0
	add := func(until int) {
		for ; next < min(until, len(n.groups)); next++ {
			for _, f := range n.groups[next] {
				n.add(pid, in, f)
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

// decode divides the interpreted frames of a stack into those of each native frame.
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

// calls returns the number of native frames that run Python functions.
func (in *interpreter) calls(frames []byte) (calls int) {
	for i := 0; i < len(frames); i += 8 {
		if in.runs(binary.LittleEndian.Uint64(frames[i:]), i > 0) {
			calls++
		}
	}
	return calls
}

// runs reports whether an address is in the function that runs Python functions.
func (in *interpreter) runs(ip uint64, returned bool) bool {
	if returned {
		ip--
	}
	return slices.ContainsFunc(in.file.python.Eval, func(r runtimes.Range) bool { return r.Contains(ip - in.bias) })
}

// add adds an interpreted frame to the words of a stack.
func (n *interpreted) add(pid int32, in *interpreter, f runtimes.Interpreted) {
	at, ok := in.codes[codeID{f.Code, f.Check}]
	if !ok {
		at = n.read(pid, in, f)
		if len(in.codes) >= maxCodes {
			clear(in.codes)
		}
		in.codes[codeID{f.Code, f.Check}] = at
	}
	if at.ip == 0 {
		n.count.Unnamed++
		return
	}
	n.count.Named++
	n.words = binary.LittleEndian.AppendUint64(n.words, functions.IP(at.ip, at.size, f.Off))
}

// read reads a function from the memory of a process.
func (n *interpreted) read(pid int32, in *interpreter, f runtimes.Interpreted) (at place) {
	fn, err := in.file.python.Function(procMem(pid), f)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, fs.ErrPermission) {
			n.count.Denied = true
		}
		return place{}
	}
	ip, ok := n.set.Add(fn)
	if !ok {
		n.count.Full = true
		return place{}
	}
	return place{ip, fn.Size}
}

// map adds the mapping of functions to the records, for the processes with interpreters that BPF has got since the last
// call: at a time before their first samples with functions.
func (r *Recorder) mapFunctions() {
	if len(r.procs.interpreting) == 0 {
		return
	}
	at := max(r.mergers[0].tally.Last, r.side.newest)
	idSize := r.like.SampleIDSize()
	for _, pid := range r.procs.interpreting {
		from := len(r.merged.Records)
		r.merged.Records = r.names.set.Mapping(pid).Append(r.merged.Records, idSize)
		synth.Stamp(r.merged.Records[from:], idSize, at)
	}
	r.procs.interpreting = r.procs.interpreting[:0]
}

// NewFile makes another file of the recording have the mappings of functions, too.
func (r *Recorder) NewFile() {
	for pid, p := range r.procs.byPID {
		if p.functions {
			r.procs.interpreting = append(r.procs.interpreting, pid)
		}
	}
	slices.Sort(r.procs.interpreting)
	r.procs.interpreting = slices.Compact(r.procs.interpreting)
}

// SaveFunctions stores the names and lines of the functions of interpreters, so that readers find them.
func (r *Recorder) SaveFunctions() error {
	if r.names == nil {
		return nil
	}
	return r.names.set.Save()
}
