//go:build linux

package unwind

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/procmem"
	"gperf/internal/runtimes/hotspot"
)

var (
	update   = flag.Bool("update", false, "record the walks of testdata/walks that this machine can")
	programs = flag.String("programs", "", "folder of the compiled programs to record, for -update without compilers")
)

// hostMachine is the machine of this program.
var hostMachine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// recordings are the programs whose walks testdata/walks has. A program with steps is stepped through, from its first
// instruction on or, with the argument stop, from where it stops itself; another one runs, and is stopped again and
// again.
var recordings = []struct {
	name  string
	args  func(t *testing.T) []string
	steps int
}{
	{"start", func(t *testing.T) []string { return []string{compiled(t, "native", "step.c")} }, 500_000},
	{"native", func(t *testing.T) []string { return []string{compiled(t, "native", "step.c"), "stop"} }, 500_000},
	{"plt", func(t *testing.T) []string {
		return []string{compiled(t, "plt", "step.c", "-fcf-protection=full", "-Wl,-z,ibtplt,-z,lazy"), "stop"}
	}, 500_000},
	{"made", func(t *testing.T) []string { return []string{compiled(t, "made", "jit.c")} }, 300_000},
	{"go", func(t *testing.T) []string { return []string{builtGo(t, "go", "load.go"), "60"} }, 0},
	{"v8", func(t *testing.T) []string { return []string{installed(t, "node"), load("load.js"), "60"} }, 0},
	{"hotspot", func(t *testing.T) []string { return []string{installed(t, "java"), load("Load.java"), "60"} }, 0},
	{"cpython", func(t *testing.T) []string {
		return []string{installed(t, "python3"), "-X", "perf", load("load.py"), "60"}
	}, 0},
}

func load(name string) string { return filepath.Join("../testdata/runtimes", name) }

// installed returns the path of a program of this machine.
func installed(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	if err != nil || *programs != "" {
		t.Skipf("%s is missing", name)
	}
	return path
}

func compiled(t *testing.T, name, src string, flags ...string) string {
	if *programs != "" {
		return filepath.Join(*programs, name)
	}
	return compile(t, src, flags...)
}

func builtGo(t *testing.T, name, src string) string {
	if *programs != "" {
		return filepath.Join(*programs, name)
	}
	exe := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", exe, load(src)).CombinedOutput(); err != nil {
		t.Skipf("go build %s: %v\n%s", src, err, out)
	}
	return exe
}

// TestWalksRecord records the walks of testdata/walks: go test ./unwind -run WalksRecord -update. In a guest for arm64
// (testdata/kernels/run), which has no compilers, the test's binary runs in a folder that the guest may write, with
// programs that aarch64-linux-gnu-gcc and go build made: -test.run WalksRecord -update -programs FOLDER.
func TestWalksRecord(t *testing.T) {
	if !*update {
		t.Skip("-update records walks")
	}
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			runtime.LockOSThread() // the one that traces
			defer runtime.UnlockOSThread()
			s := newSampler(t)
			s.record(r.args(t), r.steps)
			if s.walks == 0 {
				t.Fatal("no walk")
			}
			file := filepath.Join(walksDir, hostTargets[hostMachine]+"-"+r.name+".gz")
			if err := s.capture().write(file); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// maxRecorded is the number of walks of a program that are kept.
const maxRecorded = 200

// sampler stops a program, walks its stacks, and keeps the walks in which something is new.
type sampler struct {
	t      *testing.T
	pid    int
	traced map[int]int // threads, and the signals that they get when they go on
	live   *process    // the process, with the memory that walks have read since the last stop
	lines  map[uint64]bool
	u      Unwinder
	files  map[string]*recordedFile
	known  map[string]bool // properties of the kept walks: see news
	stops  []snapshot
	walks  int
	rows   map[uint32]bool // of live.rows: those that kept walks use
}

// recordedFile is a file and its unwind table.
type recordedFile struct {
	im    *dso.Image // nil if there is none
	table uint32     // or hostFP
}

func newSampler(t *testing.T) *sampler {
	s := &sampler{t: t, traced: map[int]int{}, files: map[string]*recordedFile{}, known: map[string]bool{},
		rows: map[uint32]bool{}}
	s.live = &process{machine: hostMachine, fetch: s.fetch, log: s.log}
	return s
}

// record runs a program, and records walks of it.
func (s *sampler) record(args []string, steps int) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: steps > 0}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	defer s.kill(cmd)
	if steps > 0 {
		s.step(steps, slices.Contains(args, "stop"))
	} else {
		s.interrupt()
	}
	s.t.Logf("%d walks at %d stops", s.walks, len(s.stops))
}

// kill ends the program. Its process remains until the tracer has waited for all threads.
func (s *sampler) kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	for tid := range s.traced {
		if tid != s.pid {
			unix.Wait4(tid, nil, unix.WALL, nil)
		}
	}
	cmd.Wait()
}

// maxIdle is the number of steps without news after which a program is not stepped through any more, stepTime the time
// after which it is not.
const maxIdle, stepTime = 250_000, 80 * time.Second

// step records walks at n of a program's instructions: the first ones, or those after it has stopped itself.
func (s *sampler) step(n int, stops bool) {
	var ws unix.WaitStatus
	unix.Wait4(s.pid, &ws, unix.WALL, nil)
	if stops {
		unix.PtraceCont(s.pid, 0)
		unix.Wait4(s.pid, &ws, unix.WALL, nil)
	}
	s.readMaps()
	start := time.Now()
	for sig, idle := 0, 0; n > 0 && idle < maxIdle && s.walks < maxRecorded && ws.Stopped(); n-- {
		if time.Since(start) > stepTime {
			break
		}
		if idle++; s.walkAll(s.pid) {
			idle = 0
		}
		_, _, err := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SINGLESTEP, uintptr(s.pid), 0, uintptr(sig), 0, 0)
		if err != 0 {
			s.t.Fatal(err)
		}
		unix.Wait4(s.pid, &ws, unix.WALL, nil)
		if sig = 0; ws.StopSignal() != unix.SIGTRAP {
			sig = int(ws.StopSignal())
		}
	}
}

// interrupt records walks while the program runs.
func (s *sampler) interrupt() {
	const duration, pause = 40 * time.Second, 3 * time.Millisecond
	for start := time.Now(); time.Since(start) < duration && s.walks < maxRecorded; {
		time.Sleep(pause)
		s.seize()
		s.stopAll()
		s.readMaps()
		var tids []int
		for tid := range s.traced {
			tids = append(tids, tid)
		}
		s.walkAll(tids...)
		for tid, sig := range s.traced {
			unix.PtraceCont(tid, sig)
		}
	}
}

// seize begins to trace new threads.
func (s *sampler) seize() {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", s.pid))
	for _, task := range tasks {
		var tid int
		fmt.Sscan(path.Base(task), &tid)
		if _, ok := s.traced[tid]; !ok && unix.PtraceSeize(tid) == nil {
			s.traced[tid] = 0
		}
	}
}

// stopAll stops all traced threads.
func (s *sampler) stopAll() {
	for tid := range s.traced {
		unix.PtraceInterrupt(tid)
	}
	for tid := range s.traced {
		var ws unix.WaitStatus
		if _, err := unix.Wait4(tid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
			delete(s.traced, tid)
			continue
		}
		s.traced[tid] = 0
		if sig := ws.StopSignal(); sig != unix.SIGTRAP {
			s.traced[tid] = int(sig)
		}
	}
}

// x86PtraceRegs are the DWARF numbers of x86-64's registers in the order of struct user_regs_struct.
var x86PtraceRegs = []int{15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, 16, -1, -1, 7}

// regs returns the registers of a stopped thread, by DWARF number.
func (s *sampler) regs(tid int) (regs []uint64, ok bool) {
	const prStatus = 1
	var raw [64]uint64
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&raw)), Len: uint64(unsafe.Sizeof(raw))}
	_, _, err := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGSET, uintptr(tid), prStatus,
		uintptr(unsafe.Pointer(&iov)), 0, 0)
	if hostMachine == elf.EM_AARCH64 {
		return raw[:arm64PC+1], err == 0
	}
	regs = make([]uint64, x86RIP+1)
	for i, n := range x86PtraceRegs {
		if n >= 0 {
			regs[n] = raw[i]
		}
	}
	return regs, err == 0
}

// fetch reads a page of the process, nil if it cannot be read.
func (s *sampler) fetch(addr uint64) []byte {
	b := make([]byte, hostPage)
	if n, _ := procmem.Reader(s.pid).ReadAt(b, int64(addr)); n < len(b) {
		return nil
	}
	return b
}

// log marks the lines that a walk reads. BPF reads up to 512 bytes of the stack at once, of one page.
func (s *sampler) log(addr uint64, n int) {
	const window = 512
	first, page := addr&^(lineSize-1), addr&^(hostPage-1)
	for line := first; line-first < window && line&^(hostPage-1) == page; line += lineSize {
		s.lines[line] = true
	}
	s.lines[(addr+uint64(n)-1)&^(lineSize-1)] = true
}

// walkAll walks the stacks of stopped threads, and keeps those in which something is new. It reports whether there are
// any.
func (s *sampler) walkAll(tids ...int) bool {
	s.live.memory, s.live.pageAt = s.live.memory[:0], s.live.pageAt[:0]
	var kept snapshot
	lines := map[uint64]bool{} // of kept walks
	for _, tid := range tids {
		regs, ok := s.regs(tid)
		if !ok || s.walks >= maxRecorded {
			continue
		}
		s.lines = map[uint64]bool{}
		if s.live.mapping(regs[abiOf(hostMachine).ip]) < 0 {
			s.readMaps()
		}
		if r := s.live.walk(&s.u, regs); s.news(&r) {
			s.walks++
			kept.Threads = append(kept.Threads, thread{regs, r.frames, r.end()})
			maps.Copy(lines, s.lines)
			s.mark(regs, r.raw)
		}
	}
	if len(kept.Threads) == 0 {
		return false
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if b := s.live.at(line); b != nil {
			kept.Lines, kept.Memory = append(kept.Lines, line), append(kept.Memory, b[:lineSize]...)
		}
	}
	s.stops = append(s.stops, kept)
	return true
}

// news reports whether something in a walk is new: the rule of the sampled frame or its instruction, the kind of
// another rule, how the walk ended, and a frame more than all others by a power of two.
func (s *sampler) news(g *goResult) (is bool) {
	note := func(key string) {
		is = is || !s.known[key]
		s.known[key] = true
	}
	note(g.end().String())
	note(fmt.Sprint("frames ", bits.Len(uint(len(g.raw)))))
	for i, f := range g.raw {
		r, m := s.live.ruleOf(f)
		switch {
		case m == nil:
			note("no mapping")
		case i == 0 && r.CFA != CFANone:
			note(r.String())
		case m.Object != nil && r.CFA != CFANone:
			note(fmt.Sprint(i == 0, f.Return, f.Last, r.CFA, r.RA, r.FP, r.Flags))
		case f.Return:
			note(fmt.Sprint("no rule", m.Made, m.Code != nil, m.Object != nil))
		default:
			var code [2]byte
			s.live.read(f.IP, code[:])
			note(fmt.Sprintf("no rule, %v %v %v %x", m.Made, m.Code != nil, m.Object != nil, code))
		}
	}
	return is
}

// readMaps reads the mappings with code.
func (s *sampler) readMaps() {
	p := s.live
	all, err := procfs.Maps(s.pid)
	if err != nil {
		s.t.Fatal(err)
	}
	p.maps = p.maps[:0]
	for m := range all {
		if m.Executable() && m.Path != "[vsyscall]" {
			p.maps = append(p.maps, s.mapping(&m))
		}
	}
	p.use()
}

// mapping returns a mapping as record/stacks passes it to BPF.
func (s *sampler) mapping(m *procfs.Mapping) hostMapping {
	k := hostMapping{Start: m.Start, End: m.End, Table: hostMade}
	if m.Path != dso.VDSO && (m.Path == "" || !dso.KindOf(m.Path).HasPath()) {
		for i, h := range s.live.heaps {
			if m.Start >= h.Low && m.Start < h.High {
				k.Table, k.Bias = hostHotSpot, uint64(i)
			}
		}
		return k
	}
	f := s.file(m.Path)
	if k.Table = hostFP; f.im == nil {
		return k
	}
	bias, ok := f.im.Bias(m.Start, m.End, m.Off)
	if !ok {
		return k
	}
	if path.Base(m.Path) == "libjvm.so" && len(s.live.heaps) == 0 {
		s.readHeaps(f.im, bias)
	}
	k.Bias, k.Table = bias, f.table
	return k
}

func (s *sampler) file(name string) *recordedFile {
	f := s.files[name]
	if f != nil {
		return f
	}
	f = &recordedFile{table: hostFP}
	s.files[name] = f
	im, err := new(dso.Locator).Find(name, dso.BuildID{})
	if err != nil {
		s.t.Logf("%s: %v", name, err)
		return f
	}
	cache, _ := NewCache()
	t, err := cache.Build(im)
	if err != nil {
		s.t.Logf("%s: %v", name, err)
		return f
	}
	f.im, f.table = im, s.live.addTable(t, im.Entry())
	return f
}

// readHeaps reads the code heaps of a Java virtual machine.
func (s *sampler) readHeaps(lib *dso.Image, bias uint64) {
	symbols := map[string]uint64{}
	list, err := lib.Symbols(".dynsym")
	if err != nil {
		s.t.Fatal(err)
	}
	for name, y := range list {
		symbols[name] = y.Value
	}
	s.live.heaps, err = hotspot.Read(procmem.Reader(s.pid), func(name string) (uint64, bool) {
		vaddr, ok := symbols[name]
		return vaddr + bias, ok
	})
	if err != nil && !errors.Is(err, hotspot.ErrStarting) {
		s.t.Fatal(err)
	}
}

// mark marks the rows that a walk uses.
func (s *sampler) mark(regs []uint64, frames []Frame) {
	for _, f := range frames {
		s.markRows(f)
	}
	if hostMachine == elf.EM_AARCH64 { // walks look the link register up, too
		s.markRows(Frame{IP: regs[arm64LR], Return: true})
	}
}

// markRows marks the rows around the rule of a frame.
func (s *sampler) markRows(f Frame) {
	const around = 3
	p := s.live
	m, vaddr := p.place(f)
	if m == nil {
		return
	}
	i, ok := p.row(m.Table, vaddr)
	if !ok {
		return
	}
	t := &p.tables[m.Table]
	pg := p.pages[t.Pages+uint32(vaddr>>pageBits-t.Base)]
	for j := max(i, pg.First+around) - around; j < min(i+around+1, pg.First+pg.N); j++ {
		s.rows[j] = true
	}
}

// capture returns the kept walks, with the marked rows of the tables.
func (s *sampler) capture() *capture {
	p := s.live
	c := &capture{Machine: hostMachine, Maps: p.maps, Heaps: p.heaps, Stops: s.stops}
	for i := range p.tables {
		c.Tables = append(c.Tables, s.slim(&p.tables[i]))
		c.Entries = append(c.Entries, p.tables[i].Entry)
	}
	return c
}

// slim returns a table with the marked rows and, in place of the others, rows of code without CFI.
func (s *sampler) slim(from *hostTable) Table {
	p := s.live
	t := Table{Base: from.Base, Rules: []Rule{{}}}
	index := map[Rule]uint16{{}: 0}
	for _, pg := range p.pages[from.Pages:][:from.NumPages] {
		first, before := uint32(len(t.Rows)), false
		for i := pg.First; i < pg.First+pg.N; i++ {
			kept := s.rows[i]
			if i > pg.First && !kept && !before {
				continue
			}
			var r Rule
			if kept {
				r = p.rules[from.Rules+uint32(p.rows[i].Rule)]
			}
			if _, ok := index[r]; !ok {
				index[r] = uint16(len(t.Rules))
				t.Rules = append(t.Rules, r)
			}
			t.Rows = append(t.Rows, Row{p.rows[i].Off, index[r]})
			before = kept
		}
		t.Pages = append(t.Pages, Page{first, uint32(len(t.Rows)) - first})
	}
	return t
}
