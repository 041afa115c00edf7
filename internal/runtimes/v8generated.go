package runtimes

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"gperf/internal/addrspace"
	"gperf/internal/procmem"
)

// v8Layout is where the code that V8 generates has what describes it: offsets in bytes. Instructions are in an object,
// the InstructionStream, or in the Code object itself in version 10.
type v8Layout struct {
	stream uint16 // the type of the object that has the instructions, 0 if it is not known
	first  uint64 // the instructions in it
	code   uint64 // its Code object, 0: itself

	// These are in the Code object.
	start                     uint64 // the address of the instructions, 0: they are in it
	size, table, deopt, flags uint64

	kindMask, kindShift, baseline uint32 // the kind in the flags; optimized code has greater ones

	// Indices in the DeoptimizationData of optimized code. The offset of its exits follows the inlined functions.
	literals, outer, inlined int
}

// v8Code is generated code as it was when it was read.
type v8Code struct {
	v8Head
	owner uint32 // the function's check, 0 if it is not known
	alone bool   // a frame in it had none that BPF has passed
	// partial means that some could not be read: the garbage collector may have been moving it.
	partial bool
	// The following are nil for other code, or if nothing is known.
	optimized *v8Optimized
	baseline  *v8Baseline
}

// v8Head distinguishes code from other code at the same addresses later.
type v8Head struct {
	stream, object uint64 // the objects
	instructions   Range
	kind           uint32
	deopt, table   uint64 // objects
}

const (
	maxV8Size  = 1 << 18 // bytes of instructions that are searched
	v8Block    = 1 << 12 // bytes that are searched at once
	maxV8Codes = 1 << 12
)

// v8Codes are the code that has been seen in a process.
type v8Codes struct {
	known addrspace.Space[*v8Code]
	// streamMap is the map of all objects that have instructions, 0 if it is not known yet: it never moves.
	streamMap uint64
	functions map[codeKey]*v8Bytecode // those that known code runs or has inlined
	latest    map[uint64]*v8Bytecode  // by SharedFunctionInfo, since the last call of Stale
	checked   int                     // of known, by Stale
}

// codeKey identifies a function of a process.
type codeKey struct {
	shared uint64
	check  uint32
}

// codeOf returns the code of a frame, nil if there is none that is known.
func (v *v8Process) codeOf(h *v8Heap, f NativeFrame) *v8Code {
	if v.vm.layout.stream == 0 {
		return nil
	}
	if r := v.codes.known.Find(f.IP); r != nil && (r.Value.runs(f) || !v.stale(h, r.Value)) {
		return r.Value
	}
	head, ok := v.findCode(h, f.IP)
	if !ok || head.kind == v.vm.layout.baseline && !f.Has {
		return nil // it does not say whose it is
	}
	c, p := &v8Code{v8Head: head}, procmem.NewPages(h.mem, maxPages)
	defer p.Release()
	near := v.heap(p)
	switch {
	case c.kind > v.vm.layout.baseline:
		if c.optimized = v.optimized(near, &head); c.optimized != nil {
			c.owner, c.partial = c.optimized.functions[v8Outer].Check, c.optimized.partial
		}
	case c.kind == v.vm.layout.baseline:
		c.baseline, c.owner = v.baseline(near, &head), f.Passed.Check
	}
	if again, err := v.head(h, head.stream); err != nil || again != head {
		return &v8Code{partial: true}
	}
	if c.partial {
		return c
	}
	if v.codes.known.Len() >= maxV8Codes {
		v.codes = v8Codes{streamMap: v.codes.streamMap}
	}
	v.codes.known = v.codes.known.With(
		addrspace.Range[*v8Code]{Start: head.instructions.Start, End: head.instructions.End, Value: c},
		func(old *addrspace.Range[*v8Code], _, _ uint64) *v8Code { return old.Value })
	return c
}

// runs reports whether code is that of the function that BPF has passed for a frame.
func (c *v8Code) runs(f NativeFrame) bool { return f.Has && c.owner == f.Passed.Check }

// stale reports whether code has made way for other code. What is known of a process that has exited is right.
func (v *v8Process) stale(h *v8Heap, c *v8Code) bool {
	head, err := v.head(h, c.stream)
	return (err == nil || errors.Is(err, errObject)) && head != c.v8Head
}

// Stale implements Renewed: code may have made way for other code. BPF shows whether a frame has the same function as
// before, so that only some of the code needs to be looked at each time.
func (v *v8Process) Stale(mem io.ReaderAt) (stale bool, pause time.Duration) {
	const some = 64
	h, all, n := v.heap(mem), v.codes.known, 0
	for r := range all.All() {
		due := n >= v.codes.checked && n < v.codes.checked+some
		if n++; (due || r.Value.alone) && v.stale(h, r.Value) {
			v.codes.known = v.codes.known.Without(r.Start)
			stale = true
		}
	}
	clear(v.codes.latest) // as BPF reads each once a second
	if v.codes.checked += some; v.codes.checked >= n {
		v.codes.checked = 0
	}
	return stale, time.Second
}

// findCode searches for the code that has an ip: the object is at the next smaller address that has its map.
func (v *v8Process) findCode(h *v8Heap, ip uint64) (v8Head, bool) {
	others := map[uint64]bool{} // words that are no map of an object with instructions
	for end := ip &^ 7; end > v8Block && ip-end < maxV8Size; {
		start := (end - 1) &^ (v8Block - 1)
		b, err := readAt(h.mem, start, int(end-start))
		if err != nil {
			return v8Head{}, false
		}
		for i := len(b) - 8; i >= 0; i -= 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			if !isObject(w) || v.codes.streamMap != 0 && w != v.codes.streamMap || others[w] {
				continue
			}
			if v.codes.streamMap == 0 && !h.isMap(w, v.vm.layout.stream) {
				others[w] = true
				continue
			}
			if head, err := v.head(h, start+uint64(i)+v8Tag); err == nil {
				v.codes.streamMap = w
				return head, head.instructions.Contains(ip)
			}
		}
		end = start
	}
	return v8Head{}, false
}

// isMap reports whether an object is the map of objects of a type.
func (h *v8Heap) isMap(object uint64, of uint16) bool {
	t, err := h.typeIn(object)
	return err == nil && t == of && h.is(object, h.objects.mapType) == nil
}

// head reads what describes the code of an object with instructions. The error is errObject if it is another one.
func (v *v8Process) head(h *v8Heap, stream uint64) (c v8Head, err error) {
	l := &v.vm.layout
	w, err := h.words(stream, 0, 2)
	if err != nil {
		return c, err
	}
	if v.codes.streamMap != 0 && w[0] != v.codes.streamMap {
		return c, errObject
	}
	c = v8Head{stream: stream, object: stream}
	if l.code != 0 {
		c.object = w[l.code/8]
	}
	w, err = h.words(c.object, 0, int(max(l.start, l.size, l.table, l.deopt, l.flags)/8)+1)
	if err != nil {
		return c, err
	}
	half := func(off uint64) uint32 { return uint32(w[off/8] >> (8 * (off % 8))) }
	start, size := stream-v8Tag+l.first, half(l.size)
	if size == 0 || size > maxV8Size || l.start != 0 && w[l.start/8] != start {
		return c, errObject
	}
	c.instructions = Range{start, start + uint64(size)}
	c.kind = half(l.flags) & l.kindMask >> l.kindShift
	c.deopt, c.table = w[l.deopt/8], w[l.table/8]
	return c, nil
}

// generated returns the functions of a frame in generated code: none if the code is not known.
func (v *v8Process) generated(h *v8Heap, f NativeFrame) (b Bound) {
	c := v.codeOf(h, f)
	if c == nil {
		return b
	}
	b.Partial = c.partial
	switch {
	case c.optimized != nil && f.Has && !c.runs(f): // the code has changed meanwhile, or the frame is another one's
	case c.optimized != nil:
		c.alone = c.alone || !f.Has
		b.Functions = c.optimized.at(uint32(f.IP - c.instructions.Start))
		b.Others = c.optimized.all
	case c.baseline != nil && c.runs(f) && f.Passed.Off == 0:
		f.Passed.Off = 2 * v.vm.bytecodes.offset(c.baseline, f.IP-c.instructions.Start)
		b.Functions = []Interpreted{f.Passed}
	}
	b.Replaces = len(b.Functions) > 0
	return b
}
