package record

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"gperf/bpf"
	"gperf/unwind"
)

// held is a missed sample that waits for tables.
type held struct {
	missed
	space *space
	since time.Time
	file  *mappedFile // file whose table it waits for
}

// waits reports whether the missing table is still being made.
func (h *held) waits() bool { return h.file.state == filePending && time.Since(h.since) < maxWait }

// maxHeld limits the memory of held samples, in bytes.
const maxHeld = 32 << 20

// maxWait is the maximum time that a sample is held.
const maxWait = 3 * time.Second

// walkMissed walks the stacks that BPF could not walk, if their tables are available.
func (d *dwarf) walkMissed() {
	slices.SortStableFunc(d.j.missed, func(a, b missed) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(d.j.early, func(a, b endedEarly) int { return cmp.Compare(a.time, b.time) })
	for i := range d.j.missed {
		m := &d.j.missed[i]
		d.countEarly(m.time)
		d.until(m.time)
		h := held{missed: *m}
		if d.heldBytes < maxHeld {
			h.since = time.Now() // otherwise it is not held
		}
		h.space = d.look(m.pid, &m.head)
		if h.space != nil {
			d.request(h.space, binary.LittleEndian.Uint64(h.data[8*bpf.NumRegs:]))
		}
		if h.sample == nil || d.walk(&h) {
			continue
		}
		h.space.refs++ // keeps the mappings unchanged
		d.heldBytes += len(h.data)
		d.held = append(d.held, h)
	}
	d.j.missed = d.j.missed[:0]
	d.countEarly(math.MaxUint64)
	d.until(d.last)
}

// look returns the mappings of a process, and makes BPF walk the process from now on. It
// returns nil if the process exited before gperf could read them.
func (d *dwarf) look(pid int32, head *bpf.Head) *space {
	p := d.procs.get(pid)
	if p == nil {
		return nil
	}
	if !p.on || p.exec != head.Exec {
		p.published = published{head.TGID, head.Exec, true}
		d.procs.touch(p)
	}
	return p.space
}

// request starts making the table that BPF missed at an address. The walk in Go may need
// others, or may not reach that address.
func (d *dwarf) request(s *space, at uint64) {
	if m := s.find(at); m != nil {
		d.builder.request(m.file)
	}
}

// walk walks the stack of a missed sample and adds the sample to the file. It returns false
// if the sample has to wait for a table.
func (d *dwarf) walk(h *held) bool {
	le := binary.LittleEndian
	const rip, rsp, rbp = 16, 7, 6
	at := func(n int) uint64 { return le.Uint64(h.data[8*n:]) }
	regs := unwind.NewRegs(elf.EM_X86_64, at(rip), at(rsp), at(rbp))
	for n := range rip {
		regs.Set(n, at(n))
	}
	stack := unwind.Stack{Addr: at(rsp), Bytes: h.data[bpf.CopyAhead:][:h.head.Stack]}
	d.view = view{space: h.space}
	var why unwind.Reason
	d.frames, why = d.walker.Walk(d.frames[:0], &regs, &stack, &d.view)
	if f := d.view.missing; f != nil && time.Since(h.since) < maxWait {
		d.builder.request(f)
		h.file = f
		return false
	}
	if why == unwind.NoRule && len(d.frames) == 1 {
		why = d.guess(h, &regs, &stack)
	}
	d.words = d.words[:0]
	for _, f := range d.frames {
		d.words = le.AppendUint64(d.words, f.IP)
	}
	d.sum.Copied++
	d.copied[h.head.End]++
	d.copiedBytes += uint64(len(h.data))
	end := endOf(why, d.view.missing != nil)
	if d.j.ends[end]++; end != bpf.EndEntry {
		d.incomplete.add(end, h.space, d.lookup())
	}
	d.j.add(h.sample, h.chain, h.max, d.words)
	return true
}

// lookup returns the address whose mapping contains the last frame of a walk.
func (d *dwarf) lookup() uint64 {
	if len(d.frames) == 0 {
		return 0
	}
	f := d.frames[len(d.frames)-1]
	if f.Return {
		return f.IP - 1
	}
	return f.IP
}

// guess continues from an innermost frame without a row, as the BPF programs do (by_guess in
// walk.h).
func (d *dwarf) guess(h *held, regs *unwind.Regs, stack *unwind.Stack) unwind.Reason {
	if d.view.atEntry(regs.IP()) {
		return unwind.EndOfStack
	}
	const words = 3
	for sp := regs.SP(); sp < regs.SP()+8*words; sp += 8 {
		ra, ok := stack.Word(sp)
		if !ok || !d.view.called(ra) {
			continue
		}
		n := len(d.frames)
		caller := unwind.NewRegs(elf.EM_X86_64, ra-1, sp+8, regs.FP())
		var why unwind.Reason
		d.frames, why = d.walker.Walk(d.frames, &caller, stack, &d.view)
		d.frames[n] = unwind.Frame{IP: ra, Return: true}
		return why
	}
	return unwind.NoRule
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
	}
	return bpf.EndNoRule
}

// view presents a space to the walk in Go.
type view struct {
	space   *space
	m       unwind.Mapping
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
	v.m = unwind.Mapping{Start: m.start, End: m.end}
	switch m.file.state {
	case fileUnknown, filePending:
		v.missing = m.file
		return nil
	case fileReady:
		if bias, ok := m.file.im.Bias(m.start, m.end, m.pgoff); ok {
			v.m.Bias, v.m.Object = bias, m.file.object
		}
	}
	return &v.m
}

// entrySize is the size of the code at a program's entry point, in bytes; it has no caller.
const entrySize = 64

// atEntry reports whether ip is in the code at a program's entry point.
func (v *view) atEntry(ip uint64) bool {
	m := v.Mapping(ip)
	if m == nil || m.Object == nil {
		return false
	}
	f := v.space.find(ip).file
	return f.entry != 0 && ip-m.Bias-f.entry < entrySize
}

// called reports whether a call instruction ends at ip: e8 with 4 bytes, or ff /2 with up to
// 6.
func (v *view) called(ip uint64) bool {
	m := v.Mapping(ip)
	if m == nil || m.Object == nil {
		return false
	}
	b, err := v.space.find(ip).file.code(ip-m.Bias-8, 8)
	if err != nil {
		return false
	}
	if b[3] == 0xe8 {
		return true
	}
	for _, i := range [...]int{6, 5, 4, 2, 1} {
		if b[i] == 0xff && b[i+1]&0x38 == 0x10 {
			return true
		}
	}
	return false
}
