//go:build linux && amd64

package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gperf/internal/dso"
)

// TestStep steps through programs, one instruction after the other, and walks
// the stack at each. The stepper knows the expected callers without CFI: it watches
// calls, returns and signals, and keeps the return addresses itself.
func TestStep(t *testing.T) {
	if testing.Short() {
		t.Skip("steps through 140,000 instructions: not in short mode")
	}
	for _, p := range []struct {
		name, src string
		flags     []string
	}{
		{"dynamic", "step.c", nil},
		{"cet", "step.c", []string{"-fcf-protection=full", "-Wl,-z,ibtplt", "-O3"}},
		{"static", "step.c", []string{"-static", "-no-pie"}},
		{"static-pie", "step.c", []string{"-static-pie", "-O1"}},
		{"throw", "throw.cc", nil},
		{"made at run time", "jit.c", nil},
	} {
		t.Run(p.name, func(t *testing.T) {
			s := &stepper{t: t, exe: compile(t, p.src, p.flags...)}
			s.run()
		})
	}
}

// stepper runs a program and knows the chain of each of its threads.
type stepper struct {
	t       *testing.T
	exe     string
	pid     int
	mem     *os.File
	space   *procSpace
	threads map[int]*shadow
	near    Stack // read in advance; valid until the next step
	u       Unwinder
	symbols []elf.Symbol

	steps, wrong, skipped int
	ended                 bool
}

// shadow is a thread's stack, kept by watching it.
type shadow struct {
	segs   []segment // the last is where it runs; the others were interrupted by signals
	bottom []Frame   // frames on the stack of the first segment when the watch began
	regs   syscall.PtraceRegs
	op     [16]byte // the bytes at its ip
	popped *call    // by "pop reg": vfork keeps its return address in a register

	thrown bool // a throw wrote the popped address

	running bool
	before  syscall.PtraceRegs // when it was made to run
	sig     int                // to be delivered
}

// segment is the part of a stack between signals.
type segment struct {
	calls       []call
	interrupted uint64 // address of the interrupted ip in the signal frame; the handler may change it
}

type call struct{ slot, ret uint64 }

// chain returns the frames that a walk must find.
func (s *shadow) chain(mem Memory) []Frame {
	f := []Frame{{IP: s.regs.Rip}}
	for i := len(s.segs) - 1; i >= 0; i-- {
		seg := &s.segs[i]
		if i == len(s.segs)-1 && s.popped != nil {
			f = append(f, ret(s.popped.ret))
		}
		for j := len(seg.calls) - 1; j >= 0; j-- {
			handler := j == 0 && seg.interrupted != 0 // it returns to where nothing was called
			f = append(f, Frame{IP: seg.calls[j].ret, Return: !handler})
		}
		if seg.interrupted != 0 {
			ip, _ := mem.Word(seg.interrupted)
			f = append(f, Frame{IP: ip})
		}
	}
	return append(f, s.bottom...)
}

// dropReturned removes the calls whose return addresses are no longer on the stack.
func (s *shadow) dropReturned() {
	seg := &s.segs[len(s.segs)-1]
	for n := len(seg.calls); n > 0 && seg.calls[n-1].slot < s.regs.Rsp; n-- {
		seg.calls = seg.calls[:n-1]
	}
}

func (s *stepper) run() {
	s.start()
	defer s.stop()
	s.runTo("stepBegin")
	start := time.Now()
	s.watch(s.pid)
	s.begin()
	s.stepAll()
	s.t.Logf("%d instructions stepped, %d chains wrong, %d while a throw rewrote the stack, %v", s.steps, s.wrong,
		s.skipped, time.Since(start).Round(time.Millisecond))
	s.deep()
	if s.skipped > s.steps/10 {
		s.t.Errorf("%d of %d chains not checked", s.skipped, s.steps)
	}
	if s.steps < 1000 || !s.ended {
		s.t.Errorf("stepped %d instructions only, end reached: %v", s.steps, s.ended)
	}
}

// start starts the program and stops it at its first instruction.
func (s *stepper) start() {
	runtime.LockOSThread() // the one that traces
	s.threads = map[int]*shadow{}
	if f, err := elf.Open(s.exe); err == nil {
		s.symbols, _ = f.Symbols()
		f.Close()
	}
	p, err := os.StartProcess(s.exe, []string{s.exe},
		&os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		s.t.Skipf("no right to trace a child: %v", err)
	}
	s.pid = p.Pid
	if s.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", s.pid)); err != nil {
		s.t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(s.pid, &ws, syscall.WALL, nil); err != nil {
		s.t.Fatal(err)
	}
	const exitKill = 0x100000 // PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(s.pid, syscall.PTRACE_O_TRACECLONE|exitKill); err != nil {
		s.t.Fatal(err)
	}
	s.space = &procSpace{pid: s.pid, mem: s.mem, t: s.t, objects: map[string]*dsoObject{}}
}

func (s *stepper) stop() {
	syscall.Kill(s.pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, syscall.WALL, nil); err != nil {
			break
		}
	}
	s.mem.Close()
	runtime.UnlockOSThread()
}

// deep makes the program recurse to a depth of 1,000, and walks the stack.
func (s *stepper) deep() {
	if !s.runTo("deepest") {
		return
	}
	h := s.threads[s.pid]
	if err := s.fetch(s.pid, h); err != nil {
		s.t.Fatal(err)
	}
	s.u.MaxDepth = 2000
	frames, why := s.walk(h, false)
	n := 0
	for _, f := range frames {
		if s.name(f.IP) == "deep" {
			n++
		}
	}
	if n != 1001 || why != EndOfStack || s.name(frames[len(frames)-1].IP) != "_start" {
		s.t.Errorf("1001 frames deep, %d found of %d: %v", n, len(frames), why)
	}
}

// sym returns the address of a symbol.
func (s *stepper) sym(name string) uint64 {
	for _, y := range s.symbols {
		if y.Name == name {
			return s.space.exeBias(s.exe) + y.Value
		}
	}
	return 0
}

// runTo continues the program to a function, if it exists.
func (s *stepper) runTo(name string) bool {
	at := uintptr(s.sym(name))
	if at == 0 {
		return false
	}
	var old [1]byte
	syscall.PtracePeekData(s.pid, at, old[:])
	syscall.PtracePokeData(s.pid, at, []byte{0xcc})
	var ws syscall.WaitStatus
	if err := syscall.PtraceCont(s.pid, 0); err != nil {
		s.t.Fatal(err)
	}
	syscall.Wait4(s.pid, &ws, syscall.WALL, nil)
	if !ws.Stopped() || ws.StopSignal() != syscall.SIGTRAP {
		s.t.Fatalf("the program did not reach %s: %#x", name, ws)
	}
	syscall.PtracePokeData(s.pid, at, old[:])
	var r syscall.PtraceRegs
	syscall.PtraceGetRegs(s.pid, &r)
	r.Rip = uint64(at)
	syscall.PtraceSetRegs(s.pid, &r)
	s.space.read()
	return true
}

// watch begins to keep the stack of a thread.
func (s *stepper) watch(tid int) {
	h := &shadow{segs: []segment{{}}}
	s.threads[tid] = h
	if err := s.fetch(tid, h); err != nil {
		s.t.Fatal(err)
	}
}

// begin gets the first frames from a walk, and checks
// that they are a program's start: main, the C library, and _start.
func (s *stepper) begin() {
	h := s.threads[s.pid]
	frames, why := s.walk(h, false)
	if why != EndOfStack || len(frames) < 3 {
		s.t.Fatalf("at stepBegin: %s: %v", s.names(frames), why)
	}
	if main, start := s.name(frames[1].IP), s.name(frames[len(frames)-1].IP); main != "main" || start != "_start" {
		s.t.Fatalf("at stepBegin: %s", s.names(frames))
	}
	h.bottom = frames[2:]
	ret, _ := s.Word(h.regs.Rsp)
	h.segs[0].calls = []call{{h.regs.Rsp, ret}}
}

func (s *stepper) fetch(tid int, h *shadow) error {
	if err := syscall.PtraceGetRegs(tid, &h.regs); err != nil {
		return err
	}
	s.near = Stack{}
	_, err := s.mem.ReadAt(h.op[:], int64(h.regs.Rip))
	return err
}

// Word implements Memory.
func (s *stepper) Word(addr uint64) (uint64, bool) {
	if v, ok := s.near.Word(addr); ok {
		return v, true
	}
	const size = 4096 // within a page or its neighbour: one may not be mapped
	at := addr &^ (size - 1)
	if addr-at > size-8 {
		at += 8
	}
	b := make([]byte, size)
	n, _ := s.mem.ReadAt(b, int64(at))
	s.near = Stack{Addr: at, Bytes: b[:n]}
	return s.near.Word(addr)
}

// stepAll steps all threads, each as soon as it has stopped, until one has
// reached stepEnd.
func (s *stepper) stepAll() {
	end := s.sym("stepEnd")
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		for tid, h := range s.threads {
			if h.regs.Rip == end {
				s.ended = true
				return
			}
			if !h.running {
				h.before, h.running = h.regs, true
				if err := ptraceStep(tid, h.sig); err != nil {
					s.t.Logf("step thread %d: %v", tid, err)
					delete(s.threads, tid)
				}
			}
		}
		var ws syscall.WaitStatus
		tid, err := syscall.Wait4(-1, &ws, syscall.WALL, nil)
		if err != nil {
			return
		}
		s.stopped(tid, ws)
	}
	s.t.Error("out of time")
}

// stopped processes the wait status of a thread, and checks its chain if it ran an
// instruction.
func (s *stepper) stopped(tid int, ws syscall.WaitStatus) {
	h := s.threads[tid]
	switch {
	case ws.Exited() || ws.Signaled():
		delete(s.threads, tid)
		return
	case h == nil: // a new thread: it stops before its first instruction
		s.watch(tid)
		return
	}
	h.running = false
	if ws.TrapCause() == syscall.PTRACE_EVENT_CLONE {
		return
	}
	if st := ws.StopSignal(); st != syscall.SIGTRAP && h.sig == 0 {
		h.sig = int(st) // to be delivered: the next stop is in the handler
		return
	}
	op, sig := h.op, h.sig
	h.sig = 0
	if err := s.fetch(tid, h); err != nil {
		s.t.Fatal(err)
	}
	h.follow(s, &h.before, op[:], sig)
	s.check(h)
}

func ptraceStep(tid, sig int) error {
	_, _, e := syscall.Syscall6(syscall.SYS_PTRACE, syscall.PTRACE_SINGLESTEP, uintptr(tid), 0, uintptr(sig), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// follow brings the shadow up to date after an instruction.
func (h *shadow) follow(s *stepper, before *syscall.PtraceRegs, op []byte, sig int) {
	now := &h.regs
	// rt_sigreturn is "mov $15, %rax; syscall".
	if op[0] == 0x0f && op[1] == 0x05 && before.Rax == 15 && len(h.segs) > 1 {
		h.segs = h.segs[:len(h.segs)-1]
		return
	}
	if ip, _ := s.Word(now.Rsp + 8 + SignalRIP); sig != 0 && ip == before.Rip { // not one that is ignored
		ret, _ := s.Word(now.Rsp)
		h.segs = append(h.segs, segment{calls: []call{{now.Rsp, ret}}, interrupted: now.Rsp + 8 + SignalRIP})
		return
	}
	if h.thrown { // it has popped its landing pad, and jumped there
		h.popped, h.thrown = nil, false
	}
	seg := &h.segs[len(h.segs)-1]
	switch {
	case isCall(op) && now.Rsp == before.Rsp-8:
		ret, _ := s.Word(now.Rsp)
		seg.calls = append(seg.calls, call{now.Rsp, ret})
		return
	case op[0] >= 0x58 && op[0] <= 0x5f: // pop: is it the return address?
		if n := len(seg.calls); n > 0 && seg.calls[n-1].slot == before.Rsp {
			c := seg.calls[n-1]
			ret, _ := s.Word(c.slot)
			h.popped, h.thrown = &c, ret != c.ret || op[0] == 0x59 // vfork pops rdi, libgcc rcx
		}
	case h.popped != nil && op[0] >= 0x50 && op[0] <= 0x57:
		seg.calls = append(seg.calls, *h.popped)
		h.popped = nil
	}
	h.dropReturned()
}

// isCall reports whether an instruction is a call.
func isCall(op []byte) bool {
	for len(op) > 2 && bytes.IndexByte([]byte{0x66, 0x67, 0xf2, 0xf3, 0x3e, 0x2e}, op[0]) >= 0 {
		op = op[1:]
	}
	if op[0]&0xf0 == 0x40 { // REX
		op = op[1:]
	}
	return op[0] == 0xe8 || op[0] == 0xff && op[1]>>3&7 == 2
}

func (s *stepper) walk(h *shadow, full bool) ([]Frame, Reason) {
	r := &h.regs
	regs := NewRegs(elf.EM_X86_64, r.Rip, r.Rsp, r.Rbp)
	for n, v := range [...]uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11,
		r.R12, r.R13, r.R14, r.R15} {
		regs.Set(n, v)
	}
	if full {
		f, why, _ := s.u.walk(nil, &regs, s, s.space, true)
		return f, why
	}
	return s.u.Walk(nil, &regs, s, s.space)
}

func (s *stepper) check(h *shadow) {
	s.steps++
	// To throw, libgcc puts the landing pad over a return address: for some
	// instructions the stack is neither the old one nor the new.
	throws := h.thrown
	for _, c := range h.segs[len(h.segs)-1].calls {
		ret, _ := s.Word(c.slot)
		throws = throws || ret != c.ret
	}
	if throws {
		s.skipped++
		return
	}
	want := h.chain(s)
	for _, full := range []bool{false, true} {
		got, why := s.walk(h, full)
		for i := range got {
			got[i].Last = false // the watched calls do not show where functions end
		}
		if len(h.bottom) == 0 && len(got) > len(want) && len(h.segs) == 1 {
			got = got[:len(want)] // a new thread: see thread()
		}
		complete := why == EndOfStack || why == ZeroReturn && h.begins()
		if slices.Equal(got, want) && complete || s.hidden(h.regs.Rip) && within(got, want) {
			continue
		}
		if strings.HasPrefix(s.name(h.regs.Rip), "libgcc_s") { // and over the registers that it saved
			s.skipped++
			return
		}
		s.wrong++
		if s.wrong <= 6 {
			s.t.Errorf("full=%v, %v\n got %s\nwant %s", full, why, s.names(got), s.names(want))
		}
	}
}

// begins reports whether a new thread has called nothing. Its first instructions, after the system call, have no CFI:
// libc marks the code after them as the entry point.
func (s *shadow) begins() bool {
	return len(s.bottom) == 0 && len(s.segs) == 1 && len(s.segs[0].calls) == 0
}

// hidden reports whether ip is in a function of jit.c that has moved sp by a number of bytes that its next instructions
// do not show.
func (s *stepper) hidden(ip uint64) bool {
	const distance = 256
	first, _ := s.Word(ip &^ (distance - 1))
	m := s.space.Mapping(ip)
	return m != nil && s.space.of[m] == "" && first&0xffffff == 0xec8348 // sub $n, %rsp
}

// within reports whether got has only frames of want, in this order.
func within(got, want []Frame) bool {
	for _, f := range want {
		if len(got) > 0 && got[0] == f {
			got = got[1:]
		}
	}
	return len(got) == 0
}

func (s *stepper) names(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, " %#x:%s", f.IP, s.name(f.IP))
		if !f.Return {
			b.WriteString("!")
		}
	}
	return b.String()
}

// name returns the function of the program or the DSO that ip lies in.
func (s *stepper) name(ip uint64) string {
	m := s.space.Mapping(ip)
	if m == nil {
		return "?"
	}
	if d := s.space.of[m]; d != s.exe {
		return fmt.Sprintf("%s+%#x", filepath.Base(d), ip-m.Bias)
	}
	for _, y := range s.symbols {
		if v := ip - m.Bias; elf.ST_TYPE(y.Info) == elf.STT_FUNC && v >= y.Value && v < y.Value+max(y.Size, 1) {
			return y.Name
		}
	}
	return fmt.Sprintf("%#x", ip-m.Bias)
}

// procSpace is the mappings of a process out of /proc.
type procSpace struct {
	t       *testing.T
	pid     int
	mem     *os.File
	maps    []*Mapping
	of      map[*Mapping]string
	objects map[string]*dsoObject
}

type dsoObject struct {
	im *dso.Image
	o  *Object
}

func (p *procSpace) exeBias(exe string) uint64 {
	p.read()
	for _, m := range p.maps {
		if p.of[m] == exe {
			return m.Bias
		}
	}
	p.t.Fatalf("%s is not mapped", exe)
	return 0
}

// Mapping implements Space.
func (p *procSpace) Mapping(ip uint64) *Mapping {
	find := func() *Mapping {
		for _, m := range p.maps {
			if ip >= m.Start && ip < m.End {
				return m
			}
		}
		return nil
	}
	if m := find(); m != nil {
		return m
	}
	p.read()
	return find()
}

// Code implements CodeReader.
func (p *procSpace) Code(ip uint64, b []byte) bool {
	n, _ := p.mem.ReadAt(b, int64(ip))
	return n == len(b)
}

func (p *procSpace) read() {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.pid))
	if err != nil {
		p.t.Fatal(err)
	}
	p.maps, p.of = nil, map[*Mapping]string{}
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		var start, end, off uint64
		var perm, dev, name string
		var ino uint64
		fmt.Sscanf(sc.Text(), "%x-%x %s %x %s %d %s", &start, &end, &perm, &off, &dev, &ino, &name)
		if !strings.Contains(perm, "x") {
			continue
		}
		d := p.object(name)
		m := &Mapping{Start: start, End: end}
		if d != nil {
			m.Bias, m.Object = bias(d.im, start, end, off), d.o
		}
		p.maps, p.of[m] = append(p.maps, m), name
	}
}

// bias returns ip - vaddr in a mapping. Its first byte may be of another segment,
// whose last page it shares.
func bias(im *dso.Image, start, end, pgoff uint64) uint64 {
	for _, l := range im.Loads {
		if l.Flags&elf.PF_X != 0 && l.Off < pgoff+end-start && pgoff < l.Off+l.Filesz {
			return start - pgoff + l.Off - l.Vaddr
		}
	}
	return 0
}

func (p *procSpace) object(name string) *dsoObject {
	if d, ok := p.objects[name]; ok || name == "" {
		return d
	}
	p.objects[name] = nil
	im, err := (&dso.Locator{}).Find(name, dso.BuildID{})
	if err != nil {
		if !errors.Is(err, dso.ErrNoFile) {
			p.t.Logf("%s: %v", name, err)
		}
		return nil
	}
	t, err := Build(im)
	if err != nil {
		p.t.Logf("%s: %v", name, err)
		return nil
	}
	p.objects[name] = &dsoObject{im, NewObject(t, func() (*CFI, error) { return NewCFI(im) })}
	return p.objects[name]
}
