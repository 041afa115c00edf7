package bpf

import (
	"encoding/binary"
	"fmt"
	"maps"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// UserStacks says how user stacks are found.
type UserStacks uint32

//bpf:enum User USER_
const (
	UserNone     UserStacks = iota
	UserByTables            // by an Unwinder's tables
	UserByFP                // by frame pointers
)

// OffCPUOptions define which waits are recorded.
type OffCPUOptions struct {
	UserStacks UserStacks
	Unwinder   *Unwinder // for UserByTables
	// PerTask, if not nil, are ids of perf events: waits are recorded only for threads with one of these events,
	// inherited or not, while the event is enabled.
	PerTask []uint64
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	CPUs    uint32 // maximum number of rings
	On      []int  // CPUs on which the waits begin
	// Threshold is the minimum duration of a wait for a record; shorter ones are summed.
	Threshold time.Duration
	// Wakers records the wakers: the threads or interrupts that ended the waits. Code in an interrupt does not run
	// for the interrupted thread: Interrupts is the kernel code where interrupts begin, Returns is the code at the
	// end of interrupts that works for the thread again. Each contains at most MaxRanges.
	Wakers              bool
	LongWakers          bool // only of waits that are not summed
	Interrupts, Returns []Code
	// Goroutines are the programs of Go whose goroutines' waits are recorded.
	Goroutines []GoProgram
}

// GoProgram is a program of Go, and where some functions of its runtime begin, as offsets in the file.
type GoProgram struct {
	Path                                                      string
	GoPark, Ready, InjectGList, Execute, GoSched, ExitSyscall uint64
	// GoID and BP are the offsets of a goroutine's number and frame pointer in its struct g, in bytes; 0: unknown.
	GoID, BP uint64
}

// Code is a range of the kernel's code, from Start up to End.
type Code struct{ Start, End uint64 }

//bpf:define MaxRanges MAX_RANGES
//bpf:define MaxWaits MAX_WAITS
const (
	MaxRanges = 16    // of code
	MaxWaits  = 65536 // threads that wait at once
)

// OffCPU holds the programs that record how long threads wait, and who wakes them.
type OffCPU struct {
	loader  *loader
	control *control
	coll    *ebpf.Collection
	links   []link.Link
	// goroutines means that there are programs for goroutines.
	goroutines bool
}

// offCPUPrograms are the programs by the tracepoint that they are attached to.
var offCPUPrograms = map[string]string{"sched_switch": "on_switch", "sched_waking": "on_waking"}

// LoadOffCPU loads the programs and attaches them. They do nothing until they are enabled.
func LoadOffCPU(o OffCPUOptions) (*OffCPU, error) {
	spec, err := loadOffcpu()
	if err != nil {
		return nil, err
	}
	slots, names := o.CPUs, []string{"identify", "on_switch", "on_waking"}
	if o.Goroutines != nil {
		slots *= maxLevels
		names = append(names, "on_exit")
		for _, at := range goroutinePlaces {
			names = append(names, at.program)
		}
	}
	setSizes(spec, map[string]uint32{"walks": slots, "stacks": slots, "scratch": slots, "quiet": o.CPUs,
		"waking": o.CPUs, "waits_to": o.CPUs, "stacks_to": o.CPUs, "wanted_cpus": o.CPUs,
		"counters": uint32(max(1, len(o.PerTask)))})
	var interrupts, returns [MaxRanges]Code
	copy(interrupts[:], o.Interrupts)
	copy(returns[:], o.Returns)
	l := newLoader(o.Unwinder, o.Cgroups)
	coll, err := l.load(spec, map[string]any{"per_task": flag(o.PerTask != nil), "cpus": o.CPUs,
		"user_stacks": uint32(o.UserStacks), "threshold": uint64(o.Threshold), "with_wakers": flag(o.Wakers),
		"long_wakers": flag(o.LongWakers), "with_cookies": flag(o.Goroutines != nil && haveCookies()),
		"interrupts": interrupts, "returns": returns}, names...)
	if err != nil {
		return nil, err
	}
	p := &OffCPU{loader: l, coll: coll, goroutines: o.Goroutines != nil}
	if err := p.start(&o); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// start fills the maps, and attaches the program.
func (p *OffCPU) start(o *OffCPUOptions) (err error) {
	if err := p.loader.setIDs(o.PerTask); err != nil {
		return err
	}
	if err := p.loader.setCPUs(o.On); err != nil {
		return err
	}
	if p.control, err = p.loader.control(o.Unwinder, p.coll.Programs["identify"]); err != nil {
		return err
	}
	tracepoints := maps.Clone(offCPUPrograms)
	if o.Goroutines != nil {
		tracepoints["sched_process_exit"] = "on_exit"
	}
	for tracepoint, name := range tracepoints {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: p.coll.Programs[name]})
		if err != nil {
			return fmt.Errorf("attaching a BPF program to tracepoint %s: %w", tracepoint, err)
		}
		p.links = append(p.links, l)
	}
	for i := range o.Goroutines {
		if err := p.attachGoroutines(&o.Goroutines[i]); err != nil {
			return err
		}
	}
	return nil
}

// OffCPUOutput is the PERF_COUNT_SW_BPF_OUTPUT events of a CPU that an OffCPU writes to.
type OffCPUOutput struct {
	Waits  int // [Wait]s
	Stacks int // [Stack]s
	// Quiet and Waking get copies of stacks, as in [Unwinder.SetOutput].
	Quiet, Waking int
}

// SetOutput directs a CPU's output.
func (p *OffCPU) SetOutput(cpu int, o OffCPUOutput) error {
	return p.loader.setOutput(cpu, map[string]int{"waits_to": o.Waits, "stacks_to": o.Stacks, "quiet": o.Quiet,
		"waking": o.Waking})
}

// Enable starts or stops recording.
func (p *OffCPU) Enable(on bool) error {
	p.loader.types = nil
	return p.control.set(on)
}

// Wait is a wait, or the sum of short ones of one thread with one stack and one waker.
type Wait struct {
	Start    uint64 // of this wait, CLOCK_MONOTONIC, in ns; 0 for a sum
	Sleep    uint64 // how long the thread slept before this wait for a CPU, in ns
	Runnable bool   // the thread waited for a CPU
	Duration uint64 // in ns
	Since    uint64 // the end of the wait, in ns of CPU time: the kernel did not report it when it was
	Stack    uint64 // the hash of its Stack
	PID, TID uint32 // when it began
	Head     Head   // describes the user stack
	Waker    Waker
	// Goroutine is the number of the goroutine that waits, or the address of its struct g if that is unknown; 0: a
	// thread waits.
	Goroutine uint64
}

// Waker is the thread or the interrupt that ended a wait.
type Waker struct {
	Known    bool
	Stack    uint64 // the hash of its Stack
	PID, TID uint32 // 0 for an interrupt; -1 outside of the recorder's PID namespace
	Head     Head   // describes the user stack, which is never a copy
	Comm     string // of a thread that is not recorded; else ""
}

func wakerOf(raw *offcpuWaker) Waker {
	var comm []byte
	for _, c := range raw.Comm {
		if c == 0 {
			break
		}
		comm = append(comm, byte(c))
	}
	return Waker{Known: raw.Known != 0, Stack: raw.Stack, PID: raw.Pid, TID: raw.Tid, Comm: string(comm),
		Head: Head{End: End(raw.End), TGID: raw.Tgid, Exec: raw.Exec}}
}

// ParseWait parses the data of PERF_SAMPLE_RAW.
func ParseWait(b []byte) (w Wait, ok bool) {
	var raw offcpuWait
	if len(b) < int(unsafe.Sizeof(raw)) {
		return w, false
	}
	if _, err := binary.Decode(b, binary.LittleEndian, &raw); err != nil {
		return w, false
	}
	return waitOf(&raw), int(raw.End) < NumEnds && int(raw.Waker.End) < NumEnds
}

func waitOf(raw *offcpuWait) Wait {
	w := Wait{Start: raw.Start, Duration: raw.Duration, Since: raw.Since, Stack: raw.Stack,
		PID: raw.Pid, TID: raw.Tid, Goroutine: raw.Goroutine,
		Head:  Head{End: End(raw.End), TGID: raw.Tgid, Exec: raw.Exec, Copy: raw.Copied != 0},
		Waker: wakerOf(&raw.Waker)}
	if raw.Woken != 0 {
		w.Start, w.Sleep, w.Runnable = raw.Woken, raw.Woken-raw.Start, true
	}
	return w
}

// Stack is the callers of a wait's start, or of a waker.
type Stack struct {
	Hash         uint64
	Kernel, User []byte // ips, 8 bytes each
	Interpreted  []byte // two words for each interpreted frame, for runtimes.Stack
	Generation   uint32 // Head's
}

// stackHead is the size of a Stack's data before the frames.
const stackHead = 24

// ParseStack parses the data of PERF_SAMPLE_RAW. The result refers to b.
func ParseStack(b []byte) (s Stack, ok bool) {
	if len(b) < stackHead {
		return s, false
	}
	le := binary.LittleEndian
	kernel, user := uint64(le.Uint32(b[8:]))*8, uint64(le.Uint32(b[12:]))*8
	interpreted := uint64(le.Uint32(b[16:])) * 16
	s.Hash, s.Generation = le.Uint64(b), le.Uint32(b[20:])
	if b = b[stackHead:]; kernel+user+interpreted > uint64(len(b)) {
		return s, false
	}
	s.Kernel, b = b[:kernel], b[kernel:]
	s.User, s.Interpreted = b[:user], b[user:][:interpreted]
	return s, true
}

// Forget makes the program send a stack again.
func (p *OffCPU) Forget(hash uint64) { p.loader.get("sent").Delete(hash) }

// Rest returns the sums of short waits, and the waits that have not ended, after recording has stopped. These
// waits last until now.
func (p *OffCPU) Rest(now uint64) (l []Wait, err error) {
	var key offcpuSumKey
	var sum offcpuSum
	sums := p.coll.Maps["sums"].Iterate()
	for sums.Next(&key, &sum) {
		l = append(l, Wait{Duration: sum.Duration, Stack: key.Stack, PID: key.Pid, TID: key.Tid,
			Goroutine: key.Goroutine, Runnable: key.Runnable != 0, Head: Head{End: End(key.End), TGID: key.Tgid},
			Waker: wakerOf(&key.Waker)})
	}
	if err := sums.Err(); err != nil {
		return nil, fmt.Errorf("reading the sums of short waits: %w", err)
	}
	var tid uint32
	var raw offcpuWait
	waits := p.coll.Maps["waits"].Iterate()
	for waits.Next(&tid, &raw) {
		if w := waitOf(&raw); w.Start < now {
			w.Duration = now - w.Start
			l = append(l, w)
		}
	}
	if err := waits.Err(); err != nil {
		return nil, fmt.Errorf("reading the waits that have not ended: %w", err)
	}
	if p.goroutines {
		return p.appendParked(l, now)
	}
	return l, nil
}

// Stats reads the counters of this kernel.
func (p *OffCPU) Stats() (s Stats) {
	for _, name := range offCPUPrograms {
		s.add(p.coll.Programs[name])
	}
	return s
}

// Unrecorded returns the number of waits that were not recorded, because too many threads waited.
func (p *OffCPU) Unrecorded() (n uint64, err error) {
	err = p.coll.Maps["unrecorded"].Lookup(uint32(0), &n)
	return n, err
}

// Close detaches the program and unloads it.
func (p *OffCPU) Close() {
	for _, l := range p.links {
		l.Close()
	}
	p.coll.Close()
	p.loader.close()
}
