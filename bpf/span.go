package bpf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// SpanDuration and SpanStart are positions of fields in the raw data of spans: of 8 bytes
// each, in ns, the start by CLOCK_MONOTONIC.
const (
	SpanDuration = 8
	SpanStart    = 16
)

// Span contains the fields of all events of spans.
type Span struct {
	ID     uint16        // the event's number in the raw data
	Min    time.Duration // shorter spans are not sampled
	Filter *Filter       // nil: record all
	Hist   *Histogram    // nil: make samples
}

// Positions and size of the raw data of a system call's span, after SpanStart: struct syscall
// of span.bpf.c.
const (
	SyscallID   = 24
	SyscallArgs = 32
	SyscallRet  = 80
	SyscallIP   = 88
	SyscallSize = 96
)

// PairData is the position of the fields of a pair's tracepoints in the raw data: the fields of the first, then
// the fields of the second, without the common fields. Before them, at PairPID, is the thread that began the span.
const (
	PairPID  = 24
	PairData = 32
)

// Limits of a pair: fields of the key, and bytes of each tracepoint's fields.
//
//bpf:define MaxPairKeys MAX_KEYS
const (
	MaxPairKeys = 4
	MaxPairData = 255
)

// Pair is a span between two tracepoints, or between calls of two functions of a program.
type Pair struct {
	Span
	// Begin and End must have the same number of keys; without any, the key is the thread.
	Begin, End PairEnd
	Path       string // of the program; "": tracepoints
	Go         bool   // a Go program
	GoID       uint64 // offset of a goroutine's number in its struct g, in bytes; 0: unknown
}

// PairEnd is a tracepoint of a Pair, or a function.
type PairEnd struct {
	FD   int    // perf event of the tracepoint. It need not be enabled.
	Off  uint64 // of the function in the file
	Size int    // bytes of the fields, without the common ones
	Keys []PairKey
}

// PairKey is a field of the key, at a position in the tracepoint's record. The record of a function is the common
// fields, NumCallArgs arguments of 8 bytes, and the goroutine's number.
//
//bpf:struct key_field
type PairKey struct{ At, Size uint32 }

// AttachPair makes a sample at the second of two tracepoints or functions.
func (e *Sampler) AttachPair(p *Pair) error {
	vars := map[string]any{"num_keys": uint32(len(p.Begin.Keys)), "begin_size": uint32(p.Begin.Size),
		"end_size": uint32(p.End.Size)}
	for name, end := range map[string]PairEnd{"begin_keys": p.Begin, "end_keys": p.End} {
		var keys [MaxPairKeys]PairKey
		if n := copy(keys[:], end.Keys); n < len(end.Keys) || end.Size > MaxPairData {
			return fmt.Errorf("a key has up to %d fields, and a tracepoint's fields up to %d bytes", MaxPairKeys,
				MaxPairData)
		}
		vars[name] = keys
	}
	names := []string{"pair_ends", "pair_begins"}
	if p.Path != "" {
		names = []string{"probed_ends", "probed_begins"}
		vars["in_go"], vars["go_number"], vars["cpus"] = flag(p.Go), uint32(p.GoID), e.o.CPUs
	}
	if len(p.Begin.Keys) == 0 {
		names = append(names, "pair_task_exits")
	}
	progs, err := e.loadSpans("pairs", &p.Span, vars, ebpf.AttachNone, names...)
	if err != nil {
		return err
	}
	if p.Path != "" {
		err = p.attachFunctions(e, progs)
	} else {
		err = p.attachTracepoints(progs)
	}
	if err != nil {
		return err
	}
	return attachRaw(e, progs[2:], "sched_process_exit")
}

// attachFunctions attaches programs to the functions at the end and the begin.
func (p *Pair) attachFunctions(e *Sampler, progs []*ebpf.Program) error {
	file, err := link.OpenExecutable(p.Path)
	if err != nil {
		return err
	}
	for i, end := range []PairEnd{p.End, p.Begin} {
		if err := e.attached(file.Uprobe("", progs[i], &link.UprobeOptions{Address: end.Off})); err != nil {
			return fmt.Errorf("attaching a BPF program to %s: %w", p.Path, err)
		}
	}
	return nil
}

// attachTracepoints attaches programs to the tracepoints at the end and the begin.
func (p *Pair) attachTracepoints(progs []*ebpf.Program) error {
	for i, end := range []PairEnd{p.End, p.Begin} {
		if err := unix.IoctlSetInt(end.FD, unix.PERF_EVENT_IOC_SET_BPF, progs[i].FD()); err != nil {
			return fmt.Errorf("attaching a BPF program to a tracepoint: %w", err)
		}
	}
	return nil
}

// attachRaw attaches programs to raw tracepoints.
func attachRaw(e *Sampler, progs []*ebpf.Program, names ...string) error {
	for i, p := range progs {
		err := e.attached(link.AttachRawTracepoint(link.RawTracepointOptions{Name: names[i], Program: p}))
		if err != nil {
			return fmt.Errorf("attaching a BPF program to tracepoint %s: %w", names[i], err)
		}
	}
	return nil
}

// SpanStats count the spans without a sample.
type SpanStats struct {
	Open   uint64 // not ended yet
	Exited uint64 // the threads exited
	Full   uint64 // began when there was no space for another, or the kernel could not lock the map
	Again  uint64 // began a second time
	Left   uint64 // calls that returned to a caller's caller
	Execs  uint64 // calls whose process executed another program
	Deep   uint64 // calls that were nested too deep
	// Uncounted is the number of completed spans that did not fit into the histograms.
	Uncounted uint64
}

// String describes the spans without an end in one line, "" if all ended.
func (s SpanStats) String() string {
	var l []string
	for _, c := range []struct {
		n    uint64
		text string
	}{
		{s.Open, "%d still open"},
		{s.Exited, "%d ended by the exit of their thread"},
		{s.Execs, "%d ended by exec"},
		{s.Left, "%d left without a return (longjmp, exception or tail call)"},
		{s.Deep, "%d nested too deep"},
		{s.Again, "%d began again"},
		{s.Full, "%d not stored, too many were open or a lock was busy"},
	} {
		if c.n > 0 {
			l = append(l, fmt.Sprintf(c.text, c.n))
		}
	}
	if l == nil {
		return ""
	}
	return fmt.Sprintf("spans without an end: %s", strings.Join(l, ", "))
}

// eventSpans are the maps of the programs of one event.
type eventSpans struct {
	id         uint16
	maps       *ebpf.Collection
	open       string // name of the map with the open spans
	histograms bool   // there are no samples
}

// AttachSyscalls makes a sample at the end of each system call. noReturn are the numbers of those
// that never end.
func (e *Sampler) AttachSyscalls(s *Span, noReturn [4]int64) error {
	progs, err := e.loadSpans("syscalls", s, map[string]any{"no_return": noReturn}, ebpf.AttachNone,
		"syscall_ends", "syscall_begins", "syscall_task_exits")
	if err != nil {
		return err
	}
	return attachRaw(e, progs, "sys_exit", "sys_enter", "sched_process_exit")
}

// loadSpans loads the programs of spans, the first of which makes the samples. open is the map of open spans,
// attach how kprobes and uprobes are attached.
func (e *Sampler) loadSpans(open string, s *Span, vars map[string]any, attach ebpf.AttachType, names ...string) (
	[]*ebpf.Program, error) {
	spec, err := loadSpan()
	if err != nil {
		return nil, err
	}
	return e.loadSpansFrom(spec, open, s, vars, attach, names...)
}

// loadSpansFrom is loadSpans with changed maps.
func (e *Sampler) loadSpansFrom(spec *ebpf.CollectionSpec, open string, s *Span, vars map[string]any,
	attach ebpf.AttachType, names ...string) ([]*ebpf.Program, error) {
	body, err := compileFetch(nil, s.Filter)
	if err != nil {
		return nil, err
	}
	maps.Copy(vars, map[string]any{"raw_id": uint32(s.ID), "min_duration": uint64(s.Min)})
	spec.Maps["buckets"].MaxEntries, spec.Maps["counted_cpus"].MaxEntries = 1, 1
	if s.Hist != nil {
		maps.Copy(vars, s.Hist.vars(s.Filter))
		spec.Maps["buckets"].MaxEntries, spec.Maps["counted_cpus"].MaxEntries = MaxBuckets, e.o.CPUs
	}
	for _, name := range names {
		if p := spec.Programs[name]; p.Type == ebpf.Kprobe {
			p.AttachType = attach
		}
	}
	progs, own, err := e.loadFrom(spec, vars, map[string]asm.Instructions{"fetch": body}, names...)
	if err != nil {
		return nil, err
	}
	e.spans = append(e.spans, eventSpans{s.ID, own, open, s.Hist != nil})
	if s.Hist != nil {
		err = s.Hist.selectCPUs(own.Maps["counted_cpus"])
	}
	return progs, err
}

//bpf:struct span_counts
type spanCounts struct {
	Exited    uint64 // spans whose task exited
	Full      uint64 // spans without space in the map
	Again     uint64 // spans that began a second time before the end
	Left      uint64 // calls that returned to a caller's caller: longjmp, exceptions
	Execs     uint64 // calls whose process executed another program
	Deep      uint64 // calls below many others: span.bpf.c's MAX_DEPTH
	Uncounted uint64 // spans without space in the histograms
}

// SpanStats returns the counts of all events.
func (e *Sampler) SpanStats() (s SpanStats, err error) {
	open := map[*ebpf.Map]bool{} // those with open spans; functions share theirs
	for _, p := range e.spans {
		var counts spanCounts
		if err := p.maps.Maps["span_counts"].Lookup(uint32(0), &counts); err != nil {
			return s, fmt.Errorf("counts of spans: %w", err)
		}
		s.Exited += counts.Exited
		s.Full += counts.Full
		s.Again += counts.Again
		s.Left += counts.Left
		s.Execs += counts.Execs
		s.Deep += counts.Deep
		s.Uncounted += counts.Uncounted
		open[cmp.Or(e.loader.get(p.open), p.maps.Maps[p.open])] = true
	}
	for m := range open {
		n, err := countOpen(m)
		if err != nil {
			return s, err
		}
		s.Open += n
	}
	return s, nil
}

// countOpen counts the spans in a map of open spans.
func countOpen(open *ebpf.Map) (n uint64, err error) {
	key, value := make([]byte, open.KeySize()), make([]byte, open.ValueSize())
	all := open.Iterate()
	for all.Next(&key, &value) {
		if binary.NativeEndian.Uint64(value[SpanStart:]) != 0 {
			n++
		}
	}
	if err := all.Err(); err != nil {
		return n, fmt.Errorf("open spans: %w", err)
	}
	return n, nil
}
