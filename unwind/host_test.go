//go:build linux

package unwind

import (
	"bufio"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"gperf/internal/runtimes/hotspot"
)

// process is the part of a process that walks read, in the layout of the BPF programs' maps.
type process struct {
	name    string
	machine elf.Machine
	memory  []byte   // pages
	pageAt  []uint64 // their addresses, in order
	maps    []hostMapping
	tables  []hostTable
	pages   []Page
	rows    []Row
	rules   []Rule
	heaps   []hotspot.Heap
	threads []thread

	space []Mapping                // for the walk in Go: maps
	used  []Table                  // and tables, with slices of the above
	start Regs                     // of the current walk
	log   func(addr uint64, n int) // if set, it is called for each read
	fetch func(addr uint64) []byte // if set, it reads a page of a live process; nil: it cannot be read
}

// thread is the registers of a walk, by DWARF number, and its result.
type thread struct {
	Regs []uint64
	Want []uint64
	End  hostEnd
}

// hostMapping is struct mapping of bpf/data.h.
type hostMapping struct {
	Start, End, Bias uint64
	Table, Zero      uint32
}

// Values of hostMapping.Table that are no index.
const (
	hostPending uint32 = 0xffffffff
	hostFP      uint32 = 0xfffffffe
	hostMade    uint32 = 0xfffffffc
	hostHotSpot uint32 = 0xfffffff0
)

// hostTable is struct table of bpf/data.h.
type hostTable struct {
	Base            uint64
	Pages, NumPages uint32
	Rules, Used     uint32
	Entry, Serial   uint64
}

// hostEnd is enum end of bpf/data.h.
type hostEnd uint64

const (
	hostEntry       hostEnd = 1
	hostNoMapping   hostEnd = 5
	hostNoTable     hostEnd = 6
	hostNoRule      hostEnd = 7
	hostUnsupported hostEnd = 8
	hostUnreadable  hostEnd = 9
	hostFramePtr    hostEnd = 10
	hostZero        hostEnd = 11
	hostDepth       hostEnd = 12
)

var hostEnds = map[hostEnd]string{
	hostEntry: "ENTRY", hostNoMapping: "NO_MAPPING", hostNoTable: "NO_TABLE", hostNoRule: "NO_RULE",
	hostUnsupported: "UNSUPPORTED", hostUnreadable: "UNREADABLE", hostFramePtr: "FP", hostZero: "ZERO", hostDepth: "DEPTH",
}

func (e hostEnd) String() string { return cmp.Or(hostEnds[e], "end "+string(rune('0'+e))) }

// hostPage and hostFrames are PAGE and MAX_FRAMES of bpf/state.h.
const (
	hostPage   = 4096
	hostFrames = 1024
)

// Regions of a process that a patch changes: see testdata/walk.c.
const (
	inMemory = iota
	inMaps
	inTables
	inPages
	inRows
	inRules
	inHeaps
	numRegions
)

// rawBytes returns the memory of a slice.
func rawBytes[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

// region returns the bytes of a region.
func (p *process) region(n int) []byte {
	switch n {
	case inMaps:
		return rawBytes(p.maps)
	case inTables:
		return rawBytes(p.tables)
	case inPages:
		return rawBytes(p.pages)
	case inRows:
		return rawBytes(p.rows)
	case inRules:
		return rawBytes(p.rules)
	case inHeaps:
		return rawBytes(p.heaps)
	}
	return p.memory
}

// addTable adds a table as bpf.AddTable does, and returns its index.
func (p *process) addTable(t *Table, entry uint64) uint32 {
	first := uint32(len(p.rows))
	p.tables = append(p.tables, hostTable{Base: t.Base, Pages: uint32(len(p.pages)), NumPages: uint32(len(t.Pages)),
		Rules: uint32(len(p.rules)), Entry: entry, Serial: uint64(len(p.tables) + 1)})
	for _, pg := range t.Pages {
		p.pages = append(p.pages, Page{first + pg.First, pg.N})
	}
	p.rows = append(p.rows, t.Rows...)
	if len(p.rows)%2 != 0 { // BPF's elements have two
		p.rows = append(p.rows, Row{})
	}
	p.rules = append(p.rules, t.Rules...)
	return uint32(len(p.tables) - 1)
}

// use prepares the walk in Go, after all tables were added.
func (p *process) use() {
	p.used = make([]Table, len(p.tables))
	for i, t := range p.tables {
		p.used[i] = Table{Base: t.Base, Pages: p.pages[t.Pages:][:t.NumPages], Rows: p.rows, Rules: p.rules[t.Rules:]}
	}
	p.space = make([]Mapping, len(p.maps))
	for i := range p.maps {
		p.useMapping(i)
	}
}

// useMapping makes the walk in Go use a mapping, as record/stacks does (view.Mapping).
func (p *process) useMapping(i int) {
	m := &p.maps[i]
	p.space[i] = Mapping{Start: m.Start, End: m.End, Made: m.Table == hostMade}
	switch {
	case m.Table == hostHotSpot:
		p.space[i].Code = heapCode{p, p.heaps[m.Bias : m.Bias+1]}
	case m.Table < uint32(len(p.used)):
		p.space[i].Bias, p.space[i].Object = m.Bias, NewObject(&p.used[m.Table], nil)
	}
}

// mapping returns the index of the mapping of an ip, -1 if there is none.
func (p *process) mapping(ip uint64) int {
	i, ok := slices.BinarySearchFunc(p.maps, ip, func(m hostMapping, ip uint64) int { return cmp.Compare(m.Start, ip) })
	if !ok {
		i--
	}
	if i < 0 || ip >= p.maps[i].End {
		return -1
	}
	return i
}

// Mapping implements Space.
func (p *process) Mapping(ip uint64) *Mapping {
	i := p.mapping(ip)
	if i < 0 || p.maps[i].Table == hostPending {
		return nil
	}
	return &p.space[i]
}

// place returns the mapping of a frame's instruction, nil if there is none, and its vaddr.
func (p *process) place(f Frame) (m *hostMapping, vaddr uint64) {
	at := f.IP
	if f.Return {
		at--
	}
	i := p.mapping(at)
	if i < 0 {
		return nil, 0
	}
	return &p.maps[i], at - p.maps[i].Bias
}

// row returns the index of the row of a vaddr.
func (p *process) row(table uint32, vaddr uint64) (row uint32, ok bool) {
	if table >= uint32(len(p.tables)) {
		return 0, false
	}
	t := &p.tables[table]
	n := vaddr>>pageBits - t.Base
	if n >= uint64(t.NumPages) {
		return 0, false
	}
	pg := p.pages[t.Pages+uint32(n)]
	row = pg.First
	for row+1 < pg.First+pg.N && p.rows[row+1].Off <= uint16(vaddr) {
		row++
	}
	return row, true
}

// ruleOf returns the rule of a frame, and its mapping, nil if there is none.
func (p *process) ruleOf(f Frame) (r Rule, m *Mapping) {
	k, vaddr := p.place(f)
	if k == nil {
		return r, nil
	}
	if k.Table < uint32(len(p.used)) {
		r = p.used[k.Table].Lookup(vaddr)
	}
	return r, p.Mapping(k.Start)
}

// at returns the memory at an address up to the end of its page.
func (p *process) at(addr uint64) []byte {
	page := addr &^ (hostPage - 1)
	i, ok := slices.BinarySearch(p.pageAt, page)
	if !ok && p.fetch != nil {
		if b := p.fetch(page); b != nil {
			p.pageAt, p.memory = slices.Insert(p.pageAt, i, page), slices.Insert(p.memory, i*hostPage, b...)
			ok = true
		}
	}
	if !ok {
		return nil
	}
	return p.memory[i*hostPage:][addr%hostPage : hostPage]
}

// read fills b with the memory at an address.
func (p *process) read(addr uint64, b []byte) bool {
	if p.log != nil {
		p.log(addr, len(b))
	}
	for len(b) > 0 {
		n := copy(b, p.at(addr))
		if n == 0 {
			return false
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return true
}

// Word implements Memory.
func (p *process) Word(addr uint64) (uint64, bool) {
	var b [8]byte
	ok := p.read(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), ok
}

// Code implements CodeReader. All memory is known: there is no code where it cannot be read.
func (p *process) Code(ip uint64, b []byte) bool {
	if !p.read(ip, b) {
		clear(b)
	}
	return true
}

// ReadAt implements io.ReaderAt.
func (p *process) ReadAt(b []byte, addr int64) (int, error) {
	if !p.read(uint64(addr), b) {
		return 0, io.ErrUnexpectedEOF
	}
	return len(b), nil
}

// heapCode finds callers in a code heap, as record/stacks does (vmCode.Caller).
type heapCode struct {
	p    *process
	heap []hotspot.Heap
}

// Caller implements Code. BPF does not keep the registers of code that a signal interrupted.
func (h heapCode) Caller(regs *Regs, mem Memory, returned bool) bool {
	const rax, rbx, r13 = 0, 3, 13
	c := hotspot.Code{Heaps: h.heap, Mem: h.p, Stack: mem.Word}
	f, known := c.Caller(hotspot.Frame{IP: regs.IP(), SP: regs.SP(), FP: regs.FP(), Returned: returned,
		RAX: regs.v[rax], RBX: regs.v[rbx], R13: regs.v[r13], All: *regs == h.p.start})
	if known {
		*regs = NewRegs(elf.EM_X86_64, f.IP, f.SP, f.FP)
	}
	return known
}

// part returns the bytes of a region from an offset on or, of the memory, from an address on.
func (p *process) part(region int, at uint64) []byte {
	if region == inMemory {
		return p.at(at)
	}
	b := p.region(region)
	return b[min(at, uint64(len(b))):]
}

// patch replaces 8 bytes of a region for one walk.
type patch struct{ region, at, value uint64 }

// set applies a patch, and returns the one that undoes it.
func (p *process) set(c patch) patch {
	b := p.part(int(c.region), c.at)
	old := patch{c.region, c.at, binary.NativeEndian.Uint64(b)}
	binary.NativeEndian.PutUint64(b, c.value)
	if c.region == inMaps {
		p.useMapping(int(c.at / uint64(unsafe.Sizeof(hostMapping{}))))
	}
	return old
}

// result is the result of a walk: its frames as in a callchain, and why it ended.
type result struct {
	frames []uint64
	end    hostEnd
}

// goResult is the result of a walk in Go, which knows more about the end.
type goResult struct {
	frames []uint64
	why    Reason
	again  bool // a walk by full CFI would follow

	raw []Frame
}

// walk walks a stack in Go, without full CFI.
func (p *process) walk(u *Unwinder, regs []uint64) (r goResult) {
	p.start = AllRegs(p.machine, regs)
	u.MaxDepth = hostFrames
	frames, why, again := u.walk(nil, &p.start, p, p, false)
	for _, f := range frames {
		if f.Last {
			f.IP-- // as in record/stacks
		}
		r.frames = append(r.frames, f.IP)
	}
	r.why, r.again, r.raw = why, again, frames
	return r
}

// host is the walk of the BPF programs, as a program of this machine.
type host struct {
	t   testing.TB
	in  *bufio.Writer
	out *bufio.Reader
	le  []byte
}

// Kinds of requests: see testdata/walk.c.
const (
	hostLoad = iota
	hostWalk
	hostFlush
)

// hostTargets are the machines whose walks testdata/walk.c can be compiled for.
var hostTargets = map[elf.Machine]string{elf.EM_X86_64: "x86", elf.EM_AARCH64: "arm64"}

// compiler returns a compiler of C. It skips the test if there is none.
func compiler(t testing.TB) string {
	for _, cc := range []string{"clang", "gcc", "cc"} {
		if path, err := exec.LookPath(cc); err == nil {
			return path
		}
	}
	t.Skip("the BPF programs' walk cannot be compiled: clang and gcc are missing")
	return ""
}

// startHost compiles and starts the walk of a machine's BPF programs.
func startHost(t testing.TB, m elf.Machine) *host {
	t.Helper()
	cc, exe := compiler(t), filepath.Join(t.TempDir(), "walk")
	// The headers are for clang's target bpf: other targets do not know some of their attributes.
	out, err := exec.Command(cc, "-O2", "-w", "-fno-strict-aliasing", "-D__TARGET_ARCH_"+hostTargets[m], "-o", exe,
		"testdata/walk.c").CombinedOutput()
	if err != nil {
		t.Fatalf("%s cannot compile testdata/walk.c: %v\n%s", cc, err, out)
	}
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	o, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the walk of the BPF programs: %v", err)
		}
	})
	return &host{t: t, in: bufio.NewWriterSize(in, 1<<16), out: bufio.NewReaderSize(o, 1<<16)}
}

// put writes numbers of a request.
func (h *host) put(numbers ...uint64) {
	h.le = h.le[:0]
	for _, n := range numbers {
		h.le = binary.NativeEndian.AppendUint64(h.le, n)
	}
	h.in.Write(h.le)
}

// load makes the next walks those of a process.
func (h *host) load(p *process) {
	h.put(hostLoad)
	for r := inMaps; r < numRegions; r++ {
		b := p.region(r)
		h.put(uint64(len(b)))
		h.in.Write(b)
	}
	h.put(uint64(len(p.pageAt)))
	for i, addr := range p.pageAt {
		h.put(addr)
		h.in.Write(p.memory[i*hostPage:][:hostPage])
	}
}

// walk requests a walk.
func (h *host) walk(regs []uint64, patches []patch) {
	h.put(hostWalk)
	h.put(regs...)
	h.put(uint64(len(patches)))
	for _, c := range patches {
		h.put(c.region, c.at, c.value)
	}
}

// flush sends the requests, whose results are next.
func (h *host) flush() {
	h.put(hostFlush)
	if err := h.in.Flush(); err != nil {
		h.t.Fatalf("request to the walk of the BPF programs: %v", err)
	}
}

// next returns the result of the next requested walk.
func (h *host) next() (r result) {
	n := []uint64{0, 0}
	h.get(n)
	r.end, r.frames = hostEnd(n[0]), make([]uint64, min(n[1], hostFrames))
	h.get(r.frames)
	return r
}

func (h *host) get(numbers []uint64) {
	if _, err := io.ReadFull(h.out, rawBytes(numbers)); err != nil {
		h.t.Fatalf("result of the walk of the BPF programs: %v", err)
	}
}

func hex(v uint64) string { return strconv.FormatUint(v, 16) }

// hexes formats addresses.
func hexes(l []uint64) string {
	var b strings.Builder
	for _, v := range l {
		b.WriteString(" ")
		b.WriteString(hex(v))
	}
	return b.String()
}
