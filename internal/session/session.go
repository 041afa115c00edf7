// Package session finds the thread, mapping and DSO of each sample's addresses. It
// reads a recording in the order of time, keeps threads, names and mappings as
// MMAP, COMM, FORK, EXIT and KSYMBOL records change them, and resolves each
// sample's addresses with the mappings of the sample's time.
//
// A Session has three parts: machine applies records, frames resolves and caches
// addresses, and walk reads the samples. format decodes the records, symbolize names
// addresses within a DSO, and script and report print. session follows
// tools/perf/util/machine.c, thread.c and maps.c, so that it attributes a frame as
// perf does.
package session

import (
	"sync"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

// Options describe a session.
type Options struct {
	File    *format.File
	Symbols *symbolize.Symbolizer
	// Keep selects samples by fields, Thread and Comm; nil selects all.
	Keep func(*Sample) bool
	// Select selects samples by their frames, too, after Keep; nil selects all.
	Select func(*Sample) bool
	// NoIdle drops the samples for which Session.Idle is true.
	NoIdle bool
	// NoIdleWaits drops the waits for work among them. Summary.Waits has their share.
	NoIdleWaits bool
	// NoNative leaves out the frames of machine code from samples with functions that an interpreter runs.
	NoNative bool
	// KeepExited keeps a thread's name for samples that follow its EXIT, as perf 6.1 and perf report do. perf 7.3's
	// script prints only the thread's number for such a sample. Recordings with AUX data keep all threads.
	KeepExited bool
	// Progress, if set, is called while Walk reads: how many bytes of the data were used, and of how many, 0 if that
	// is unknown.
	Progress func(n, of int64)
	// Written is the time when the file was written, zero if unknown.
	Written time.Time
	Origin  Origin
}

// Session reads one recording, once.
type Session struct {
	Options
	Summary

	machine   *machine
	frames    *frames // nil before Walk
	counts    counts
	idleWaits idleWaits
	unwinder  func() *unwinder // the first call makes it
}

// New returns a session. It reads nothing but the lists in the file's header.
func New(opts Options) *Session {
	s := &Session{Options: opts, machine: newMachine(&opts, false), counts: counts{}, idleWaits: idleWaits{}}
	s.unwinder = sync.OnceValue(func() *unwinder { return newUnwinder(opts.File, opts.Symbols) })
	return s
}

// Apply updates the session with a record that is no sample, for callers that read
// the recording themselves.
func (s *Session) Apply(rec format.Record) {
	s.machine.apply(rec)
	s.Summary.add(s.File, rec)
}

// Locate returns the thread of a sample and the mapping of the sampled instruction, or nil. The records before the
// sample must be applied first.
func (s *Session) Locate(sample *format.Sample) (*Thread, *Map) { return s.machine.locate(sample) }

// UserMaps calls use with the mappings of a sample's process that contain the sampled instruction or a caller; it
// may pass a mapping several times. The records before the sample must be applied first.
func (s *Session) UserMaps(sample *format.Sample, use func(*Map)) {
	th, leaf := s.machine.locate(sample)
	if leaf != nil && sample.Misc&format.MiscCPUModeMask == format.MiscUser {
		use(leaf)
	}
	last := leaf
	for i := range sample.Callchain.Len() {
		ip := sample.Callchain.At(i)
		if ip >= format.ContextMax || last != nil && ip >= last.Start && ip < last.End {
			continue
		}
		if m := th.space.maps.find(ip); m != nil {
			use(m)
			last = m
		}
	}
}

// Resolve returns the frame of an address without cpumode, for example of a branch: in the process if the address
// was mapped there, else in the kernel, else a frame without a Map. It must be called during Walk's use.
func (s *Session) Resolve(sample *Sample, ip uint64) *Frame {
	if m := sample.maps.find(ip); m != nil {
		return s.frames.frame(m, ip, false, false, nil)
	}
	if f := s.frames.kernel(ip, false, nil); f.Map != nil && !sample.Guest() {
		return f
	}
	return s.frames.foreign(ip, false, nil)
}

// UserEnd describes why the sample's user stack ended. It judges a recorded callchain by the last address: whether
// that address lies in an outermost function, or why the caller cannot be found. Any goroutine may call it.
func (s *Session) UserEnd(sample *Sample) string {
	n := sample.User.Len()
	switch {
	case sample.Unwound:
		return sample.End.String()
	case n == 0:
		return "no user stack"
	}
	return s.unwinder().objects.end(sample.User.At(n-1), n).String()
}

// MapSize returns the size of the frame's mapping, in bytes. For the kernel it is the span of the symbols, if
// known, as in perf.
func (s *Session) MapSize(f *Frame) uint64 {
	if f.Map.DSO.IsKernel() {
		if start, end := s.Symbols.KernelRange(); end > start {
			return end - start
		}
	}
	return f.Map.End - f.Map.Start
}

// Rank returns the position of the DSO's name in the order of the recording: 1 is
// the first, 0 an unknown name.
func (s *Session) Rank(name string) int32 { return s.machine.ranks[name] }

// DSOs returns the DSOs mapped by processes so far, unordered.
func (s *Session) DSOs() (l []*DSO) {
	for _, d := range s.machine.dsos {
		l = append(l, d)
	}
	return l
}

// JITDumps returns the jitdumps that the session read.
func (s *Session) JITDumps() []JITDump { return s.machine.jit.read }

// Walked reports whether Walk was called.
func (s *Session) Walked() bool { return s.frames != nil }

// KernelProblem returns why kernel addresses could not be named. It returns nil if they could, if Walk met no
// kernel addresses, or if nobody asked for kernel names.
func (s *Session) KernelProblem() error {
	if s.frames == nil || !s.frames.names || !s.frames.kernelSeen {
		return nil
	}
	return s.Symbols.KernelProblem()
}

// DSOFile identifies a DSO's file for symbolize.
type DSOFile struct {
	Path string
	ID   dso.BuildID
}

// Unresolved returns for each file the fraction of the resolved samples, from 0 to 1, in which the file's innermost
// address in the callchain is unnamed, or the sampled address if there is no callchain. Addresses that nobody
// looked up do not count. Call it after Walk.
func (s *Session) Unresolved() map[DSOFile]float64 {
	if s.frames == nil {
		return nil
	}
	return s.frames.unresolved()
}
