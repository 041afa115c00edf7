package session

import (
	"debug/elf"
	"encoding/binary"
	"math/bits"
	"runtime"
	"strings"
	"sync"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/jit"
	"gperf/unwind"
)

// unwinder finds the user frames of samples that contain registers and a copy of the stack instead, as `perf record
// --call-graph dwarf` writes them. It unwinds the stacks of a batch on all cores.
type unwinder struct {
	machine elf.Machine // of 64-bit programs, EM_NONE if the kernel runs none
	small   elf.Machine // of 32-bit programs
	armPC   int         // of EM_ARM: which bit of the mask of registers is pc
	objects *objects
	walkers []*walker
}

// walker is the state of one goroutine.
type walker struct {
	unwinder *unwinder
	walk     unwind.Unwinder
	mappings map[*Map]*unwind.Mapping
	frames   []unwind.Frame
	regs     []uint64
}

// maxUnwound is perf's limit of frames (PERF_MAX_STACK_DEPTH).
const maxUnwound = 127

func newUnwinder(f *format.File, sym *symbolize.Symbolizer) *unwinder {
	var cache *unwind.Cache // nil without a home directory: each run builds the tables again
	if !sym.Locator().Packed() {
		// Files of an archive may lack code: do not cache unwind tables of them on disk.
		cache, _ = unwind.NewCache()
	}
	u := &unwinder{objects: &objects{sym: sym, cache: cache, list: map[DSO]*object{}}}
	switch arch := f.String(format.FeatureArch); {
	case arch == "x86_64":
		u.machine, u.small = elf.EM_X86_64, elf.EM_386
	case arch == "aarch64":
		u.machine, u.small, u.armPC = elf.EM_AARCH64, elf.EM_ARM, 32
	case strings.HasPrefix(arch, "arm"): // armv7l
		u.small, u.armPC = elf.EM_ARM, 15
	case len(arch) == 4 && strings.HasSuffix(arch, "86"): // i686
		u.small = elf.EM_386
	}
	u.objects.machine = u.machine
	for range runtime.GOMAXPROCS(0) {
		w := &walker{unwinder: u, mappings: map[*Map]*unwind.Mapping{}}
		w.walk.MaxDepth = maxUnwound
		u.walkers = append(u.walkers, w)
	}
	return u
}

// stackSample is a sample with a stack copy, and the ips found in it, as 8 bytes
// each.
type stackSample struct {
	sample *Sample
	ips    []byte
	cut    bool // the stack continues above the copy
}

// walkAll unwinds the stacks on all cores.
func (u *unwinder) walkAll(list []stackSample, attrs []format.Attr) {
	if u.machine|u.small == elf.EM_NONE {
		return
	}
	var done sync.WaitGroup
	share := (len(list) + len(u.walkers) - 1) / len(u.walkers)
	for i := 0; i*share < len(list); i++ {
		part := list[i*share : min((i+1)*share, len(list))]
		done.Go(func() {
			for j := range part {
				u.walkers[i].one(&part[j], &attrs[part[j].sample.Event])
			}
		})
	}
	done.Wait()
}

// abi64 is PERF_SAMPLE_REGS_ABI_64.
const abi64 = 2

// one finds the addresses of the user frames as perf prints them: for a return address, the address of the byte
// before it, which belongs to the call.
func (w *walker) one(t *stackSample, a *format.Attr) {
	s, m := t.sample, w.unwinder.machine
	switch {
	case w.unwinder.onlyLeaf(s):
		w.leaf(t, a)
		return
	case s.UserRegsABI == abi32:
		m = w.unwinder.small
	case s.UserRegsABI != abi64:
		return
	}
	w.regs = w.regs[:0]
	for i := range s.UserRegs.Len() {
		w.regs = append(w.regs, s.UserRegs.At(i))
	}
	regs, ok := unwind.PerfRegs(m, a.SampleRegsUser, w.regs)
	if !ok {
		return
	}
	stack := unwind.Stack{Addr: regs.SP(), Bytes: s.UserStack, Is32: m == elf.EM_386}
	w.frames, s.End = w.walk.Walk(w.frames[:0], &regs, &stack, space{w, s.maps})
	s.Unwound = true
	t.cut = s.End == unwind.Unreadable && uint32(len(s.UserStack)) >= a.SampleStackUser && stack.GoesOn()
	for i, f := range w.frames {
		if f.IP == 0 { // a call through NULL, which perf does not print
			continue
		}
		if f.Return {
			f.IP--
		}
		if w.missing(s.maps.find(f.IP)) && (i > 0 || !stack.Is32) {
			s.End = unwind.NoTable
			break
		}
		t.ips = binary.LittleEndian.AppendUint64(t.ips, f.IP)
	}
}

// onlyLeaf reports whether the sample is of a 32-bit program of Arm: gperf does not read .ARM.exidx, the unwind
// table of such programs.
func (u *unwinder) onlyLeaf(s *Sample) bool { return s.UserRegsABI == abi32 && u.small == elf.EM_ARM }

// leaf finds the sampled address alone.
func (w *walker) leaf(t *stackSample, a *format.Attr) {
	pc := uint64(1) << w.unwinder.armPC // see perf_regs.h of the kernel's arch/arm/include/uapi/asm, and of arm64's
	regs := t.sample.UserRegs
	if n := bits.OnesCount64(a.SampleRegsUser & (pc - 1)); a.SampleRegsUser&pc != 0 && n < regs.Len() {
		t.ips = binary.LittleEndian.AppendUint64(t.ips, regs.At(n))
		t.sample.Unwound, t.sample.End = true, unwind.NoTable
	}
}

// missing reports whether the file of m is missing. A stack ends before this frame, as in perf (frame_callback of
// tools/perf/util/unwind-libdw.c), because without the file the callers would be guesses. Code of a JIT is unwound
// by frame pointers.
func (w *walker) missing(m *Map) bool {
	return m != nil && m.symbol == nil && !m.isVDSO32() && !m.DSO.isJIT() &&
		w.unwinder.objects.object(m.DSO).image == nil
}

// isVDSO32 reports whether the mapping is the vDSO of a 32-bit program.
func (m *Map) isVDSO32() bool { return m.DSO.Name == dso.VDSO && m.End <= 1<<32 }

// space passes the mappings of a process to an unwind.Unwinder.
type space struct {
	w *walker
	m *maps
}

func (s space) Mapping(ip uint64) *unwind.Mapping {
	m := s.m.find(ip)
	if m == nil {
		return nil
	}
	um, ok := s.w.mappings[m]
	if !ok {
		um = s.w.unwinder.objects.mapping(m)
		s.w.mappings[m] = um
	}
	return um
}

// Code implements unwind.CodeReader, with the code of files.
func (s space) Code(ip uint64, b []byte) bool {
	m := s.m.find(ip)
	if m == nil {
		return false
	}
	im := s.w.unwinder.objects.object(m.DSO).image
	if im == nil || !im.HasCode() {
		return false
	}
	n, _ := im.ReadAt(b, int64(dso.OffOfIP(ip, m.Start, m.Pgoff)))
	return n == len(b)
}

// objects holds the call frame information of DSOs, read on first use.
type objects struct {
	sym     *symbolize.Symbolizer
	cache   *unwind.Cache
	machine elf.Machine
	mu      sync.Mutex
	list    map[DSO]*object
}

type object struct {
	once  sync.Once
	image *dso.Image // nil if the file was not found
	table *unwind.Table
	*unwind.Object
}

func (o *objects) object(d *DSO) *object {
	o.mu.Lock()
	obj := o.list[*d]
	if obj == nil {
		obj = new(object)
		o.list[*d] = obj
	}
	o.mu.Unlock()
	obj.once.Do(func() {
		// Read the symbols in advance.
		go o.sym.Problem(d.Name, d.BuildID)
		obj.open(o, d)
	})
	return obj
}

func (o *objects) mapping(m *Map) *unwind.Mapping {
	if m.code != nil && m.code.EHFrame != nil {
		return &unwind.Mapping{Start: m.Start, End: m.End, Object: o.generated(m.code)}
	}
	if m.isVDSO32() {
		return &unwind.Mapping{Start: m.Start, End: m.End, Code: unwind.Vsyscall32{}}
	}
	obj := o.object(m.DSO)
	um := &unwind.Mapping{Start: m.Start, End: m.End, Object: obj.Object, Made: m.DSO.isJIT()}
	if obj.image == nil {
		return um
	}
	var ok bool
	if um.Bias, ok = obj.image.Bias(m.Start, m.End, m.Pgoff); !ok {
		um.Object = nil // the file's layout differs from the mapping
	}
	return um
}

// generated returns the call frame information of a function from a jitdump.
func (o *objects) generated(c *jit.Code) *unwind.Object {
	return unwind.NewObject(nil, func() (*unwind.CFI, error) {
		return unwind.NewGeneratedCFI([]unwind.Generated{{Start: c.Start, End: c.End, EHFrame: c.EHFrame}}, o.machine)
	})
}

// end returns why a recorded callchain of n user addresses ends after the last address.
func (o *objects) end(last *Frame, n int) unwind.Reason {
	switch {
	case last.Map == nil:
		return unwind.NoMapping
	case last.Sym() != nil && strings.HasPrefix(last.Sym().Raw, "runtime.goexit"):
		return unwind.EndOfStack // a goroutine's first frame, whose frame pointer is 0
	}
	obj := o.object(last.Map.DSO)
	if obj.image == nil || obj.table == nil {
		return unwind.NoTable
	}
	bias, ok := obj.image.Bias(last.Map.Start, last.Map.End, last.Map.Pgoff)
	if !ok {
		return unwind.NoTable
	}
	vaddr := last.IP - bias
	if n > 1 {
		vaddr-- // a return address
	}
	rule := obj.table.Lookup(vaddr)
	switch {
	case rule.CFA == unwind.CFANone:
		return unwind.NoRule
	case rule.RA == unwind.RAUndefined:
		return unwind.EndOfStack
	case n >= maxUnwound:
		return unwind.Depth
	}
	return unwind.Unreadable
}

// open finds a DSO's CFI. Without CFI or without the file, the walk uses frame
// pointers.
func (obj *object) open(o *objects, d *DSO) {
	image, err := o.sym.Locator().Find(d.Name, d.BuildID)
	if err != nil {
		return
	}
	obj.image = image
	if !image.Is64 {
		obj.Object = unwind.NewObject(nil, func() (*unwind.CFI, error) { return unwind.NewCFI(image) })
		return
	}
	table, err := o.cache.Build(image)
	if err != nil {
		return
	}
	obj.table = table
	obj.Object = unwind.NewObject(table, func() (*unwind.CFI, error) { return unwind.NewCFI(image) })
}
