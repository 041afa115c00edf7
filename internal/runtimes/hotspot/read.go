package hotspot

import (
	"errors"
	"fmt"
	"io"

	"gperf/internal/procmem"
)

// Heap is a code heap: where it is, and where the fields are that a walk reads.
//
//bpf:struct code_heap
type Heap struct {
	Low, High           uint64 // memory reserved for the heap
	Segments            uint64 // address of the segment map
	CacheLow, CacheHigh uint64 // memory reserved for all heaps of the process
	Interp, InterpSize  uint64 // the interpreter's code, which may be in another heap
	Unloaded            uint64 // address of the number of classes that were unloaded, 64 bits; 0: unknown
	Shift               uint8  // a segment is 1 << Shift bytes

	// Offsets from the start of a block, at most maxOffset.
	Blob     uint8 // the blob
	Used     uint8 // a byte that is not 0 in a block in use
	Size     uint8 // frame size in words, 32 bits: 0 for code without frames of one size
	Complete uint8 // offset in the code from which on the frame is complete, -1: unknown
	Code     uint8 // start of the code
	End      uint8 // offset of the code's end from the blob, 32 bits

	CompleteBits uint8 // size of Complete: 16 or 32
	CodeBits     uint8 // size of Code: 16 or 32 for an offset from the blob, 64 for an address
	_            [7]uint8
}

// blockHead is the number of bytes at the start of a block that contain the fields of a Heap.
//
//bpf:define blockHead BLOCK_HEAD
const blockHead = 128

// maxOffset is the highest offset of a field in a block.
const maxOffset = blockHead - 8

// ErrStarting means that the virtual machine did not yet create the heaps or the interpreter.
var ErrStarting = errors.New("virtual machine is starting")

const (
	maxHeaps = 8
	minShift = 3
	maxShift = 16
	maxIP    = 1 << 47 // end of user space
)

// Read finds the code heaps of a process. symbol returns the ip of a symbol of the process's libjvm.so.
func Read(mem io.ReaderAt, symbol func(name string) (ip uint64, ok bool)) ([]Heap, error) {
	m := procmem.NewCursor(mem, maxPages)
	t, err := readTables(m, symbol)
	if err != nil {
		return nil, err
	}
	var h Heap
	if err := t.layout(&h); err != nil {
		return nil, err
	}
	h.Unloaded = t.counter(m, unloadedClasses)
	heaps := t.heaps(m, &h)
	if m.Err != nil {
		return nil, m.Err
	}
	return heaps, checkHeaps(heaps)
}

// layout sets the offsets of the fields in blocks and blobs.
func (t *tables) layout(h *Heap) error {
	blob := t.sizes["HeapBlock"]
	if blob == 0 || blob > maxOffset {
		return fmt.Errorf("size of HeapBlock: %d", blob)
	}
	h.Blob = uint8(blob)
	code := "CodeBlob._code_begin" // up to JDK 22
	if _, ok := t.fields[code]; !ok {
		code = "CodeBlob._code_offset"
	}
	for _, f := range []struct {
		name       string
		base       uint64
		off, width *uint8
	}{
		{"HeapBlock::Header._used", 0, &h.Used, nil},
		{"CodeBlob._frame_size", blob, &h.Size, nil},
		{"CodeBlob._frame_complete_offset", blob, &h.Complete, &h.CompleteBits},
		{"CodeBlob._data_offset", blob, &h.End, nil},
		{code, blob, &h.Code, &h.CodeBits},
	} {
		field, ok := t.fields[f.name]
		if !ok || field.off > maxOffset || f.base+field.off > maxOffset {
			return fmt.Errorf("field %s: missing, or at offset %d", f.name, field.off)
		}
		*f.off = uint8(f.base + field.off)
		bits := widths[field.kind]
		switch {
		case f.width != nil:
			*f.width = bits
		case f.off != &h.Used && bits != 32:
			return fmt.Errorf("field %s: of type %s", f.name, field.kind)
		}
	}
	if h.CodeBits == 0 || h.CompleteBits != 16 && h.CompleteBits != 32 {
		return errors.New("fields of CodeBlob: of unknown types")
	}
	return nil
}

// widths is the sizes of fields by type, in bits.
var widths = map[string]uint8{"int": 32, "u2": 16, "uint16_t": 16, "int16_t": 16, "address": 64}

// heaps reads the heaps. like contains the layout.
func (t *tables) heaps(m *procmem.Cursor, like *Heap) (l []Heap) {
	if queue := m.Word(t.addr("AbstractInterpreter._code")); queue != 0 {
		like.Interp = m.Word(queue + t.off("StubQueue._stub_buffer"))
		like.InterpSize = uint64(uint32(m.Int32(queue + t.off("StubQueue._buffer_limit"))))
	}
	for _, heap := range t.heapAddrs(m) {
		h := *like
		memory, segments := heap+t.off("CodeHeap._memory"), heap+t.off("CodeHeap._segmap")
		h.Low = m.Word(memory + t.off("VirtualSpace._low"))
		h.High = m.Word(memory + t.off("VirtualSpace._high_boundary"))
		h.Segments = m.Word(segments + t.off("VirtualSpace._low"))
		h.Shift = uint8(min(uint32(m.Int32(heap+t.off("CodeHeap._log2_segment_size"))), 255))
		l = append(l, h)
	}
	for i := range l {
		l[i].CacheLow, l[i].CacheHigh = l[0].Low, l[0].High
		for _, h := range l {
			l[i].CacheLow, l[i].CacheHigh = min(l[i].CacheLow, h.Low), max(l[i].CacheHigh, h.High)
		}
	}
	return l
}

// heapAddrs returns the addresses of the CodeHeaps: one in JDK 8, an array in later versions.
func (t *tables) heapAddrs(m *procmem.Cursor) (l []uint64) {
	if _, ok := t.fields["CodeCache._heap"]; ok {
		if heap := m.Word(t.addr("CodeCache._heap")); heap != 0 {
			l = append(l, heap)
		}
		return l
	}
	array := m.Word(t.addr("CodeCache._heaps"))
	if array == 0 {
		return nil
	}
	length := "GrowableArrayBase._len"
	if _, ok := t.fields[length]; !ok {
		length = "GenericGrowableArray._len" // up to JDK 15
	}
	data := m.Word(array + t.off("GrowableArray<int>._data"))
	for i := range min(uint32(m.Int32(array+t.off(length))), maxHeaps) {
		l = append(l, m.Word(data+8*uint64(i)))
	}
	return l
}

// checkHeaps returns an error if heaps are missing or cannot be right.
func checkHeaps(l []Heap) error {
	if len(l) == 0 || l[0].Interp == 0 {
		return ErrStarting
	}
	for i, h := range l {
		switch {
		case h.Low == 0 && h.High == 0:
			return ErrStarting
		case h.Low >= h.High || h.High > maxIP || h.Segments == 0 || h.Segments > maxIP:
			return fmt.Errorf("code heap at %#x-%#x, segment map at %#x", h.Low, h.High, h.Segments)
		case h.Shift < minShift || h.Shift > maxShift:
			return fmt.Errorf("code heap with segments of 1 << %d bytes", h.Shift)
		case h.Interp > maxIP || h.InterpSize > maxIP:
			return fmt.Errorf("interpreter at %#x", h.Interp)
		}
		for _, other := range l[:i] {
			if h.Low < other.High && other.Low < h.High {
				return fmt.Errorf("code heaps at %#x and %#x overlap", h.Low, other.Low)
			}
		}
	}
	return nil
}
