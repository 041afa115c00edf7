package programs

import (
	"encoding/binary"
	"math"
	"os"
	"slices"

	"gperf/bpf"
	"gperf/internal/procfs"
	"gperf/record/probe/kernel"
	"gperf/unwind"
)

// kernelCode is the parts of the kernel's code that stacks are cut at. Parts that /proc/kallsyms does not show are
// empty: then the stacks contain these functions.
type kernelCode struct {
	scheduler  kernel.Codes // calls the tracepoint of waits
	runners    kernel.Codes // run the program at the tracepoint of wakers
	interrupts []bpf.Code   // where interrupts begin
	returns    []bpf.Code   // the ends of interrupts that work for the interrupted thread
}

// findKernelCode reads /proc/kallsyms.
func findKernelCode(wakers bool) (c kernelCode) {
	f, err := os.Open(procfs.Kallsyms)
	if err != nil {
		return c
	}
	defer f.Close()
	c.scheduler = schedulerCode(f)
	if !wakers {
		return c
	}
	known := func(name string) bool { return unwind.BeginsInterrupt(name) || slices.Contains(interruptReturns, name) }
	for _, fn := range kernel.FunctionCode(fromStart(f), known) {
		if unwind.BeginsInterrupt(fn.Name) {
			c.interrupts = appendMerged(c.interrupts, bpf.Code(fn.Code))
		} else {
			c.returns = appendMerged(c.returns, bpf.Code(fn.Code))
		}
	}
	c.runners = kernel.Runners(fromStart(f))
	return c
}

// fromStart makes a file to be read from the start.
func fromStart(f *os.File) *os.File {
	f.Seek(0, 0)
	return f
}

// schedulerCode returns the kernel's scheduler functions (.sched.text), none if kallsyms does not show it.
func schedulerCode(kallsyms *os.File) kernel.Codes {
	var c kernel.Code
	for s := range procfs.SymbolsWithSuffix(kallsyms, " __sched_text_start", " __sched_text_end") {
		if s.Name() == "__sched_text_start" {
			c.Start = s.Addr
		} else {
			c.End = s.Addr
		}
	}
	return kernel.Codes{c}
}

// interruptReturns are the functions in which a thread that returns from an interrupt to user space does work for
// itself, for example handles a signal: of x86-64, and of arm64.
var interruptReturns = []string{"irqentry_exit_to_user_mode", "irqentry_exit", "do_notify_resume"}

// appendMerged appends a range if there is room, or extends the last one if it ends there.
func appendMerged(l []bpf.Code, c bpf.Code) []bpf.Code {
	if n := len(l); n > 0 && l[n-1].End == c.Start {
		l[n-1].End = c.End
		return l
	}
	if c.End == math.MaxUint64 || len(l) == bpf.MaxRanges { // the end of the last symbol is unknown
		return l
	}
	return append(l, c)
}

// offCPUOwnFrames is the number of innermost frames that belong to the BPF program and the function that runs it,
// if code is unknown.
const offCPUOwnFrames = 2

// callersOf returns the frames after the frames of some code, which is not the innermost.
func callersOf(frames []byte, code kernel.Codes) []byte {
	in := func(at int) bool { return code.Has(binary.LittleEndian.Uint64(frames[at:]) - 1) } // of the call
	at := 0
	for at < len(frames) && !in(at) {
		at += 8
	}
	if at == len(frames) {
		return frames[min(len(frames), 8*offCPUOwnFrames):]
	}
	for at < len(frames) && in(at) {
		at += 8
	}
	return frames[at:]
}
