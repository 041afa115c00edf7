package stacks

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"runtime"
	"slices"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procmem"
	"gperf/unwind"
)

// machine is the one that this program is compiled for.
var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// resolver walks the stacks that BPF could not walk in Go: with the mappings at the sample's
// time, as soon as the unwind tables are available.
type resolver struct {
	merged *Merged
	side   *sideBand
	procs  *registry
	tables *tables

	deferred    deferred
	incomplete  placeCounts
	copied      [bpf.NumEnds]uint64 // walked stacks, by the reason why BPF did not walk them
	copiedBytes uint64

	walker unwind.Unwinder
	view   view
	frames []unwind.Frame // reused
	words  []byte         // reused
}

// place finds the mappings of the unresolved samples' processes: it applies the side band in time order with the
// samples, because a sample needs the mappings at the time of the sample.
func (r *resolver) place() {
	r.procs.tracker.forgetExited()
	slices.SortStableFunc(r.merged.unresolved, func(a, b unresolvedSample) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(r.merged.early, func(a, b earlyEnd) int { return cmp.Compare(a.time, b.time) })
	for i := range r.merged.unresolved {
		u := &r.merged.unresolved[i]
		r.countEarly(u.time)
		r.side.until(u.time, r.apply)
		if u.space = r.procs.lookUp(u.pid, &u.head); u.space != nil {
			u.space.refs++ // keeps the mappings unchanged until resolve
			// The walk in Go may need other tables than BPF, or not reach that address.
			if r.tables.request(u.space, binary.LittleEndian.Uint64(u.data[8*bpf.NumRegs:])) {
				r.requestSeen(u)
			}
		}
	}
	r.countEarly(math.MaxUint64)
	r.side.until(r.side.newest, r.apply)
	r.tables.requestVDSO()
}

// resolve walks the stacks of the unresolved samples whose tables are available.
func (r *resolver) resolve() {
	for i := range r.merged.unresolved {
		u := &r.merged.unresolved[i]
		if u.sample != nil {
			r.walkOrDefer(&deferredSample{unresolvedSample: *u}, r.deferred.hasRoom())
		}
		if u.space != nil {
			u.space.refs--
			r.procs.release(u.space)
		}
	}
	clear(r.merged.unresolved)
	r.merged.unresolved = r.merged.unresolved[:0]
}

// maxEarly is the maximum size, in bytes, of mapped code whose table is built before a stack
// needs it.
const maxEarly = 1 << 20

// apply applies a side-band record. It requests the table of a small file as soon as a sampled
// process maps it: the stacks of a program's first milliseconds need many tables, and the
// process may exit before the file is opened.
func (r *resolver) apply(rec format.Record) {
	r.procs.apply(rec)
	if m, ok := rec.(*format.Mmap); ok && m.Len <= maxEarly && r.tables.affords == nil {
		if p := r.procs.tracker.byPID[m.PID]; p != nil && p.registered {
			r.tables.request(p.space, m.Start)
		}
	}
}

// walk walks a stack and adds the sample to the merged records. If a table is missing and wait
// is true, it only returns the file without a table.
func (r *resolver) walk(d *deferredSample, wait bool) (missing *mappedFile) {
	le := binary.LittleEndian
	regs := copiedRegs(d.data)
	stack := unwind.Stack{Addr: le.Uint64(d.data[8*(bpf.NumRegs+1):]), Bytes: d.stack()}
	r.view = view{space: d.space, pid: d.pid}
	var why unwind.Reason
	r.frames, why = r.walker.Walk(r.frames[:0], &regs, &stack, &r.view)
	if r.view.missing != nil && wait {
		return r.view.missing
	}
	r.words = r.words[:0]
	for _, f := range r.frames {
		if f.Last {
			f.IP-- // readers that look callers up at the ip find the function of the call
		}
		r.words = le.AppendUint64(r.words, f.IP)
	}
	r.copied[d.head.End]++
	r.copiedBytes += uint64(len(d.data))
	end := endOf(why, r.view.missing != nil)
	switch {
	case d.space == nil:
		end = bpf.EndNoProcess
	case end == bpf.EndZero && len(r.frames) == 1 && d.space.startsThread(r.frames[0].IP):
		end = bpf.EndEntry
	}
	if r.merged.ends[end]++; end != bpf.EndEntry {
		r.incomplete.add(end, d.space, r.lastAddr(), true, d.space.late(d.head.End, le.Uint64(d.data[8*bpf.NumRegs:])))
	}
	r.merged.addNamed(d.sample, d.chain, d.max, r.words, r.merged.names.walked(&d.unresolvedSample, r.words))
	return nil
}

// copiedRegs returns the registers in the data of a copy of a stack.
func copiedRegs(data []byte) unwind.Regs {
	var values [bpf.NumRegs]uint64
	for n := range values {
		values[n] = binary.LittleEndian.Uint64(data[8*n:])
	}
	return unwind.AllRegs(machine, values[:])
}

// lastAddr returns the address whose mapping contains the last frame of a walk.
func (r *resolver) lastAddr() uint64 {
	if len(r.frames) == 0 {
		return 0
	}
	f := r.frames[len(r.frames)-1]
	if f.Return {
		return f.IP - 1
	}
	return f.IP
}

// endOf returns the BPF end code for the reason why a walk in Go ended.
func endOf(why unwind.Reason, missing bool) bpf.End {
	if missing {
		return bpf.EndNoTable
	}
	switch why {
	case unwind.EndOfStack:
		return bpf.EndEntry
	case unwind.NoMapping:
		return bpf.EndNoMapping
	case unwind.NoTable:
		return bpf.EndFP
	case unwind.Unreadable:
		return bpf.EndUnreadable
	case unwind.Depth:
		return bpf.EndDepth
	case unwind.ZeroReturn:
		return bpf.EndZero
	}
	return bpf.EndNoRule
}

// view presents an address space to the walk in Go.
type view struct {
	space   *addrSpace
	pid     int32
	missing *mappedFile // first file whose table was missing
}

func (v *view) Mapping(ip uint64) *unwind.Mapping {
	if v.space == nil {
		return nil
	}
	m := v.space.find(ip)
	if m == nil {
		return nil
	}
	k := &unwind.Mapping{Start: m.start, End: m.end, Made: m.file.state == fileMade}
	switch m.file.state {
	case fileUnknown, filePending:
		v.missing = m.file
		return nil
	case fileReady:
		if m.file.vm != nil {
			if _, ok := m.file.vm.heapFor(m); ok {
				k.Code = vmCode{m.file}
			}
		} else if bias, ok := m.bias(); ok {
			k.Bias, k.Object = bias, m.file.object
		}
	}
	return k
}

// Code implements unwind.CodeReader. Code without a file may change after the sample, except the trampolines that
// CPython makes with -X perf.
func (v *view) Code(ip uint64, b []byte) bool {
	if v.space == nil {
		return false
	}
	m := v.space.find(ip)
	switch {
	case m == nil || m.file.vm != nil:
		return false
	case (m.file.state == fileReady || m.file.postponed) && m.file.jit == nil:
		return m.file.code(dso.OffOfIP(ip, m.start, m.pgoff), b)
	}
	code := make([]byte, trampolineCall+len(b))
	_, err := procmem.Reader(v.pid).ReadAt(code, int64(ip-trampolineCall))
	if err != nil || !bytes.HasPrefix(code, trampoline) {
		return false
	}
	copy(b, code[trampolineCall:])
	return true
}

// trampoline is the code of CPython's trampolines on x86-64 (Python/asm_trampoline.S), and trampolineCall the
// offset after the call.
var trampoline = []byte{
	0x48, 0x83, 0xec, 8, // sub $8, %rsp
	0xff, 0xd1, // call *%rcx
	0x48, 0x83, 0xc4, 8, // add $8, %rsp
	0xc3, // ret
}

const trampolineCall = 6
