// Package session finds the thread, mapping and DSO of each sample's addresses. It
// reads a recording in the order of time, keeps threads, names and mappings as
// MMAP, COMM, FORK, EXIT and KSYMBOL records change them, and resolves each
// sample's addresses with the mappings of its time.
//
// format decodes the records, symbolize names addresses within a DSO, and script
// and report print. replay follows tools/perf/util/machine.c, thread.c and maps.c,
// so that it attributes a frame as perf does.
package session

import (
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/srcline"
	"gperf/unwind"
)

// Thread is a thread at one moment of the recording.
type Thread struct {
	PID, TID int32
	Comm     string
	// Named is set when the recording names the thread. Until then Comm is its number.
	// FirstComm is Comm, or the first name once there is one.
	Named     bool
	FirstComm string
	space     *process
	leader    *Thread // the first of its process; nil: itself
	parent    int32   // TID of the thread that started it, -1 if unknown
	// namespaces are those of its last NAMESPACES record.
	namespaces []format.Namespace
}

func (th *Thread) setComm(name string) {
	if !th.Named {
		th.Named, th.FirstComm = true, name
	}
	th.Comm = name
}

// Leader returns the first thread of the process.
func (th *Thread) Leader() *Thread {
	if th.leader == nil {
		return th
	}
	return th.leader
}

// process is the state that threads of a process share.
type process struct{ *maps }

// Frame is one address of a callchain. The same address in the same mapping is the
// same Frame, so callers can cache results by its ID. Its name is looked up on first
// use, by any goroutine.
type Frame struct {
	ID     int // dense, from 0
	IP     uint64
	Kernel bool
	Map    *Map // nil: the address is in no mapping

	label   string // shown in the place of a symbol
	symbols *symbolize.Symbolizer
	samples int // that Unnamed counts for it
	once    sync.Once
	sym     *symbolize.Symbol
	off     uint64
	why     symbolize.Reason

	calls, callers atomic.Pointer[[]srcline.InlineFrame] // at the address, and one byte before
}

// NamedFrame returns a frame with the given symbol, which may be nil.
func NamedFrame(id int, ip uint64, kernel bool, m *Map, sym *symbolize.Symbol) *Frame {
	f := &Frame{ID: id, IP: ip, Kernel: kernel, Map: m}
	f.once.Do(func() {
		if f.sym = sym; sym != nil {
			f.off = ip - sym.Start
		}
	})
	return f
}

// Inlined returns the frame of a function that was inlined at f's address.
func (f *Frame) Inlined(sym *symbolize.Symbol) *Frame {
	own := NamedFrame(f.ID, f.IP, f.Kernel, f.Map, sym)
	own.symbols = f.symbols
	return own
}

// Sym returns the frame's symbol, or nil; Reason then says why.
func (f *Frame) Sym() *symbolize.Symbol {
	f.once.Do(f.lookUp)
	return f.sym
}

// Off returns how far from the start of its symbol the frame's address is.
func (f *Frame) Off() uint64 {
	f.once.Do(f.lookUp)
	return f.off
}

// Reason says why the frame has no symbol.
func (f *Frame) Reason() symbolize.Reason {
	f.once.Do(f.lookUp)
	return f.why
}

func (f *Frame) lookUp() {
	switch m := f.Map; {
	case m == nil:
		f.why = symbolize.Unmapped
	case m.symbol != nil:
		f.sym, f.off = m.symbol, f.IP-m.symbol.Start
	case f.Kernel:
		f.sym, f.off, _, f.why = f.symbols.Kernel(f.IP)
	default:
		if m.perfMap != "" && f.symbols.Problem(m.DSO.Name, m.DSO.BuildID) != nil {
			f.sym, f.off, f.why = f.symbols.User(m.perfMap, dso.BuildID{}, f.IP)
			return
		}
		f.sym, f.off, f.why = f.symbols.User(m.DSO.Name, m.DSO.BuildID, m.Off(f.IP))
	}
}

// Origin says from which kind of file the frame's symbols are.
func (f *Frame) Origin() dso.Origin {
	switch m := f.Map; {
	case m == nil || f.symbols == nil:
		return dso.OriginNone
	case m.symbol != nil:
		return dso.OriginJIT
	case f.Kernel:
		return f.symbols.KernelOrigin()
	default:
		return f.symbols.Origin(m.DSO.Name, m.DSO.BuildID)
	}
}

// MapOff returns the frame's address in its DSO: the offset in the file, or the ip
// itself in the kernel and outside of mappings.
func (f *Frame) MapOff() uint64 {
	if f.Map == nil || f.Kernel {
		return f.IP
	}
	return f.Map.Off(f.IP)
}

// DSO returns the name of the frame's DSO as perf shows it.
func (f *Frame) DSO() string {
	if f.Map == nil {
		return "[unknown]"
	}
	return f.Map.DSO.Name
}

// Symbol returns the frame's function, "[unknown]" when it has no name.
func (f *Frame) Symbol() string {
	if sym := f.Sym(); sym != nil {
		return sym.Name
	}
	if f.label != "" {
		return f.label
	}
	return "[unknown]"
}

// Sample is a sample with its thread and frames.
type Sample struct {
	format.Sample
	Thread *Thread // as known at the sample's time; its Comm may change later
	Comm   string
	Named  bool   // Comm is a name, not the thread's number
	Leaf   *Frame // of the sample's IP
	// Chain is the callchain. Its parts end with the batch unless History.KeepChains.
	Chain
	// Unwound says that the user frames were unwound from a stack copy; End is why
	// they end.
	Unwound bool
	End     unwind.Reason
	maps    *maps // of its process, then

	Cgroup string // path, "" if not recorded
	// Parallelism is how many threads of the recording ran then, as its context
	// switches say, at least 1.
	Parallelism int
	// Namespaces are the thread's, then, nil when the recording has none.
	Namespaces []format.Namespace
	// Branches are the addresses of the branch stack, from and to in turn, and
	// Data that of Addr, when Also asks for them.
	Branches []*Frame
	Data     *Frame
}

// Guest reports whether the sample was taken in a virtual machine. The recording
// does not have the mappings of guests: their addresses are not resolved.
func (s *Sample) Guest() bool {
	mode := s.Misc & format.MiscCPUModeMask
	return mode == format.MiscGuestKernel || mode == format.MiscGuestUser
}

// History is the state of threads and mappings at one time.
type History struct {
	sym     *symbolize.Symbolizer
	threads map[int32]*Thread // by TID
	kernel  kernel
	jit     jitDumps
	// bpfLines are the lines of BPF programs, read when the first one comes.
	bpfLines func() []format.BPFLine
	frames   []Frame // a block of those not made yet
	// frameBlocks and chainBlocks are all blocks, and counted is how many parts of
	// callchains were counted: for Unnamed.
	frameBlocks [][]Frame
	chainBlocks [][]chain
	counted     int
	resolved    int // samples
	made        int
	// kernelSeen says that a sample has an address of the kernel.
	kernelSeen bool
	unmapped   frameTable
	guestMaps  maps  // none
	lastMaps   *maps // of the last user frame
	lastMap    *Map

	// chainBytes and chainFrames are memory blocks for chains.
	chainBytes  []byte
	chainFrames []*Frame
	chainBlock  []chain
	batchFrames *arena // of the current batch

	// known are all user mappings, and their DSOs. Processes of one program have
	// the same ones, and so share resolved frames.
	known map[mapKey]*Map
	dsos  map[DSO]*DSO
	named map[*DSO]bool // their symbols are being read

	file     *format.File
	unwinder func() *unwinder // made when a sample wants it
	stacks   []stackSample
	// buildIDs are those of the BUILD_ID section.
	buildIDs map[string]dso.BuildID

	// KeepExited keeps a thread's name for samples that come after its EXIT, as
	// perf 6.1 does. In perf 7.3 such a sample has only the thread's number.
	KeepExited bool

	keepRecords bool // each Map keeps its record

	// KeepChains makes equal parts of a process's callchains the same slice, so
	// that ChainKey can be counted. It keeps each distinct part in memory.
	KeepChains bool
	// Show holds the types of records that Walk hands out besides the samples.
	Show map[format.Type]bool
	// AsWritten makes Walk read the records in file order.
	AsWritten bool
	// Also says what is resolved besides the sample's IP and callchain. With Names
	// the symbols of each DSO are read in advance, concurrently.
	Also struct{ Branches, Data, Names bool }

	cgroups map[uint64]string // paths by id
	ranks   map[string]int32  // of DSOs by name
	counts  counts
	held    []held
	called  []bool // by event: chains are Called

	// Walked is set by Walk, and Samples counts the decoded samples.
	Walked        bool
	Samples       int
	running, cpus int // running threads, as perf counts them, and CPUs, 0 if unknown

	// Lost counts the records and samples that the recording lost.
	Lost Lost
	// Late counts the records that came after younger ones.
	Late int
	// Unknown counts the records of types that format does not know.
	Unknown format.Skipped
	// Traced counts processor traces, which gperf does not decode.
	Traced Traced
}

// Traced is the size of AUXTRACE data, and the PMU that wrote it.
type Traced struct {
	By      format.AuxtraceType
	Records int
	Bytes   uint64
}

// Lost is the sum of LOST (records of any type) and LOST_SAMPLES.
type Lost struct {
	Records, Samples uint64
	// SideBand are those of Samples that are side-band records, since the event that
	// lost them has no samples. perf counts them as samples.
	SideBand uint64
	Chunks   int // LOST records
}

// New returns the history of f before its first record.
func New(f *format.File, sym *symbolize.Symbolizer) *History {
	h := &History{kernel: listedKernel(f), file: f, sym: sym, threads: map[int32]*Thread{}, known: map[mapKey]*Map{}, dsos: map[DSO]*DSO{}, named: map[*DSO]bool{}, buildIDs: map[string]dso.BuildID{}}
	h.batchFrames = new(arena)
	h.cgroups, h.counts = map[uint64]string{}, counts{}
	h.bpfLines = sync.OnceValue(f.BPFLines)
	h.unwinder = sync.OnceValue(func() *unwinder { return newUnwinder(f, sym) })
	entries, _ := f.BuildIDs() // a damaged list costs the rest of it
	for _, e := range entries {
		h.buildIDs[e.Filename] = dso.NewBuildID(e.BuildID)
	}
	h.thread(0, 0).setComm("swapper")
	h.running = 1 // the one that starts the recording was not switched to
	if n, ok := f.NrCPUs(); ok {
		h.cpus = int(n.Available)
	}
	return h
}

// Apply updates the state with a record that is no sample.
func (h *History) Apply(rec format.Record) {
	switch r := rec.(type) {
	case *format.Mmap:
		h.mmap(r)
	case *format.Comm:
		h.thread(r.PID, r.TID).setComm(r.Comm)
	case *format.Fork:
		h.fork(r)
	case *format.Exit:
		h.running-- // without a switch
		if !h.KeepExited {
			delete(h.threads, r.TID)
		}
	case *format.KSymbol:
		h.ksymbol(r)
	case *format.Switch:
		if r.Misc&format.MiscSwitchOut != 0 {
			h.running--
		} else {
			h.running++
		}
	case *format.Namespaces:
		h.thread(r.PID, r.TID).namespaces = r.NS
	case *format.Cgroup:
		h.cgroups[r.CgroupID] = r.Path
	case *format.Other:
		if !r.Raw.Type.Known() {
			h.Unknown.Add(&format.Error{Off: r.Raw.Off, Msg: r.Raw.Type.String()})
		}
	case *format.AuxtraceInfo:
		h.Traced.By = r.Type
	case *format.Auxtrace:
		h.Traced.Records++
		h.Traced.Bytes += r.Size
	case *format.Lost:
		h.Lost.Records += r.Lost
		h.Lost.Chunks++
	case *format.LostSamples:
		if r.Misc&format.MiscLostSamplesBPF == 0 {
			h.Lost.Samples += r.Lost
			if i, ok := h.file.EventByID(r.ID.ID); ok && h.file.Attrs[i].IsDummy() {
				h.Lost.SideBand += r.Lost
			}
		}
	}
}

// parallelism returns how many threads run, limited to 1 up to the number of CPUs,
// since context switches may be out of order (machine__resolve of
// tools/perf/util/event.c).
func (h *History) parallelism() int {
	n := h.running
	if h.cpus > 0 {
		n = min(n, h.cpus)
	}
	return max(n, 1)
}

// thread returns the thread. An unknown thread is created: it shares its process's
// mappings, and its number is its name.
func (h *History) thread(pid, tid int32) *Thread {
	if th, ok := h.threads[tid]; ok {
		if th.PID < 0 {
			th.PID = pid
			h.join(th)
		}
		return th // whatever pid says: a dying thread's samples may lack it
	}
	number := ":" + strconv.Itoa(int(tid))
	th := &Thread{PID: pid, TID: tid, Comm: number, FirstComm: number, parent: -1}
	h.threads[tid] = th
	h.join(th)
	if th.leader == nil {
		th.space = &process{&maps{}}
	} else {
		th.space = th.leader.space
	}
	return th
}

// join makes a thread known to be one of its process's.
func (h *History) join(th *Thread) {
	if th.PID != th.TID && th.PID >= 0 {
		th.leader = h.thread(th.PID, th.PID)
	}
}

func (h *History) fork(r *format.Fork) {
	parent := h.thread(r.PPID, r.PTID)
	if parent.PID != r.PPID { // an earlier process, whose EXIT is missing
		delete(h.threads, r.PTID)
		parent = h.thread(r.PPID, r.PTID)
	}
	delete(h.threads, r.TID)
	th := h.thread(r.PID, r.TID)
	th.parent = parent.TID
	if parent.Named {
		th.setComm(parent.Comm)
	}
	switch {
	case r.PID == parent.PID:
	case r.Ran:
		th.space = &process{&maps{}}
	default:
		th.space = &process{parent.space.clone()}
	}
}

func (h *History) mmap(r *format.Mmap) {
	id := dso.NewBuildID(r.BuildID)
	if id.IsZero() {
		id = h.buildIDs[r.Filename]
	}
	switch r.Misc & format.MiscCPUModeMask {
	case format.MiscKernel:
		h.rank(h.kernel.mmap(r, id))
	case format.MiscUser:
		if m := newMap(r, id); m != nil {
			p := h.thread(r.PID, r.TID).space
			if h.keepRecords {
				m.record = r
			} else {
				m = h.share(m)
			}
			h.rank(m)
			p.maps = p.maps.with(m)
			h.jitDump(r, p, m.DSO)
		}
	}
}

// share returns the one mapping that is like m.
func (h *History) share(m *Map) *Map {
	d, ok := h.dsos[*m.DSO]
	if !ok {
		d = m.DSO
		h.dsos[*d] = d
	}
	m.DSO = d
	key := mapKey{m.Start, m.End, m.Pgoff, m.DSO, m.perfMap}
	if same, ok := h.known[key]; ok {
		return same
	}
	h.known[key] = m
	return m
}

// resolveFrames resolves the sample's IP and callchain in its thread.
func (h *History) resolveFrames(s *Sample) {
	m := s.Thread.space.maps
	if s.Guest() {
		m = &h.guestMaps
	}
	s.maps = m
	s.Leaf = h.modeFrame(s, s.IP)
	s.Chain = Chain{Called: h.isCalled(s.Event)}
	if h.lbrChain(s, m) {
		h.countFrames(s.User, 1)
	} else {
		h.chain(s, s.Callchain, m)
	}
	h.resolved++
	if s.Chain.Len() == 0 && len(s.UserStack) == 0 {
		h.countFrames([]*Frame{s.Leaf}, 1)
	}
	if h.Also.Branches {
		h.resolveBranches(s)
	}
	if h.Also.Data {
		s.Data = h.dataFrame(s, m)
	}
}

func (h *History) isCalled(event int) bool {
	for i := len(h.called); i <= event; i++ {
		h.called = append(h.called, isCalled(h.file, i))
	}
	return h.called[event]
}

// unwind adds the frames found in the stack copies.
func (h *History) unwind(samples []Sample) {
	h.stacks = h.stacks[:0]
	for i := range samples {
		if len(samples[i].UserStack) > 0 {
			h.stacks = append(h.stacks, stackSample{sample: &samples[i]})
		}
	}
	if len(h.stacks) == 0 {
		return
	}
	h.unwinder().walkAll(h.stacks, h.file.Attrs)
	for _, t := range h.stacks {
		s := t.sample
		frames := h.resolve(&s.maps.chains, format.NewWords(t.ips, binary.LittleEndian), func(ip uint64) *Frame { return h.userFrame(s.maps, ip) })
		s.User = join(s.User, frames)
	}
}

// UserEnd describes why the sample's user stack ended. For a recorded callchain
// it judges by the last address: whether it lies in an outermost function, or
// why its caller cannot be found.
func (h *History) UserEnd(s *Sample) string {
	switch {
	case s.Unwound:
		return s.End.String()
	case len(s.User) == 0:
		return "no user stack"
	}
	return h.unwinder().objects.end(s.User[len(s.User)-1], len(s.User)).String()
}

// chain cuts the callchain at its context marks and resolves the parts, except
// addresses of a hypervisor. It drops a chain with any other mark, also of a guest,
// completely, as perf does (add_callchain_ip), and returns false.
func (h *History) chain(out *Sample, chain format.Words, m *maps) bool {
	n := chain.Len()
	mode := format.ContextUser
	for i := 0; i < n; {
		if ip := chain.At(i); ip >= format.ContextMax {
			if !isContext(ip) {
				out.Kernel, out.User = nil, nil
				return false
			}
			mode = ip
			i++
			continue
		}
		end := chain.Mark(i + 1)
		part := chain.Slice(i, end)
		switch mode {
		case format.ContextKernel:
			out.Kernel = join(out.Kernel, h.resolve(&h.kernel.chains, part, h.kernelFrame))
		case format.ContextUser, format.ContextUserDeferred:
			out.User = join(out.User, h.resolve(&m.chains, part, func(ip uint64) *Frame { return h.userFrame(m, ip) }))
		default:
			out.User = join(out.User, h.resolve(&m.foreign, part, h.foreignFrame))
		}
		i = end
	}
	return true
}

func isContext(mark uint64) bool {
	switch mark {
	case format.ContextHV, format.ContextKernel, format.ContextUser, format.ContextUserDeferred:
		return true
	}
	return false
}

// join is append for the rare chain of several parts of one kind; the usual one
// is used as it is.
func join(a, b []*Frame) []*Frame {
	if len(a) == 0 {
		return b
	}
	return append(a[:len(a):len(a)], b...)
}

// userFrame returns the frame of ip in a process. Mostly it lies in the mapping
// where the one before it lies.
func (h *History) userFrame(ms *maps, ip uint64) *Frame {
	if m := h.lastMap; h.lastMaps != ms || m == nil || ip-m.Start >= m.End-m.Start {
		h.lastMaps, h.lastMap = ms, ms.find(ip)
	}
	return h.frame(h.lastMap, ip, false)
}

// KernelFrames reports whether any sample has an address of the kernel.
func (h *History) KernelFrames() bool { return h.kernelSeen }

func (h *History) foreignFrame(ip uint64) *Frame { return h.frame(nil, ip, false) }
