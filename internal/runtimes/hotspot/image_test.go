package hotspot

import (
	"encoding/binary"
	"io"
)

// image is the memory of a made-up process with a Java virtual machine.
type image struct {
	base    uint64
	bytes   []byte
	symbols map[string]uint64
	end     uint64 // of the memory in use
}

// Addresses in an image.
const (
	imageBase = 0x7f0000000000
	heapAt    = imageBase + 0x100000
	heapSize  = 0x40000
	segmentAt = imageBase + 0x200000
	stackAt   = imageBase + 0x300000
	imageSize = 0x310000

	shift    = 7
	interpAt = heapAt + 0x80 + 0x80
)

// release is the layout of the structures in a release of HotSpot.
type release struct {
	name            string
	heapArray       bool // CodeCache contains an array of heaps
	header          uint64
	used            uint64
	codeType        string // of _code_begin or _code_offset
	code, end, size uint64
	complete        uint64
	completeType    string
}

var releases = []release{
	{"JDK 8", false, 16, 8, "int", 32, 40, 44, 36, "int"},
	{"JDK 17", true, 16, 8, "address", 32, 24, 28, 20, "int"},
	{"JDK 21", true, 16, 8, "address", 8, 84, 88, 80, "int"},
	{"JDK 25", true, 8, 4, "int", 36, 40, 44, 54, "int16_t"},
}

func (m *image) ReadAt(b []byte, addr int64) (int, error) {
	off := uint64(addr) - m.base
	if off >= uint64(len(m.bytes)) || uint64(len(b)) > uint64(len(m.bytes))-off {
		return 0, io.EOF
	}
	return copy(b, m.bytes[off:]), nil
}

func (m *image) symbol(name string) (uint64, bool) {
	ip, ok := m.symbols[name]
	return ip, ok
}

func (m *image) stack(addr uint64) (uint64, bool) {
	var b [8]byte
	_, err := m.ReadAt(b[:], int64(addr))
	return binary.LittleEndian.Uint64(b[:]), err == nil
}

func (m *image) put(addr uint64, b ...byte) { copy(m.bytes[addr-m.base:], b) }
func (m *image) put64(addr, v uint64)       { binary.LittleEndian.PutUint64(m.bytes[addr-m.base:], v) }
func (m *image) put32(addr uint64, v int) {
	binary.LittleEndian.PutUint32(m.bytes[addr-m.base:], uint32(v))
}
func (m *image) alloc(n uint64) (addr uint64) { addr, m.end = m.end, m.end+(n+7)&^7; return addr }

func (m *image) text(s string) (addr uint64) {
	addr = m.alloc(uint64(len(s)) + 1)
	m.put(addr, []byte(s)...)
	return addr
}

func (m *image) word(name string, v uint64) {
	addr := m.alloc(8)
	m.put64(addr, v)
	m.symbols[name] = addr
}

// fieldEntry is an entry of gHotSpotVMStructs.
type fieldEntry struct {
	typ, name, kind string
	off, addr       uint64
}

// newImage makes an image of a virtual machine with one heap, still without blobs.
func newImage(r *release) *image {
	m := &image{base: imageBase, bytes: make([]byte, imageSize), symbols: map[string]uint64{}, end: imageBase + 0x1000}
	heap := m.alloc(256)
	m.put64(heap+16, heapAt)           // _memory._low
	m.put64(heap+8, heapAt+heapSize)   // _memory._high_boundary
	m.put64(heap+112+16, segmentAt)    // _segmap._low
	m.put32(heap+248, shift)           // _log2_segment_size
	for i := range heapSize >> shift { // free
		m.put(segmentAt+uint64(i), 0xff)
	}
	queue := m.alloc(48)
	m.put64(queue+8, interpAt)
	m.put32(queue+20, 0x400)
	interp := m.alloc(8)
	m.put64(interp, queue)
	codeField := "_code_offset"
	if r.codeType == "address" {
		codeField = "_code_begin"
	}
	fields := []fieldEntry{
		{"CodeHeap", "_memory", "VirtualSpace", 0, 0},
		{"CodeHeap", "_segmap", "VirtualSpace", 112, 0},
		{"CodeHeap", "_log2_segment_size", "int", 248, 0},
		{"VirtualSpace", "_low", "char*", 16, 0},
		{"VirtualSpace", "_high_boundary", "char*", 8, 0},
		{"HeapBlock::Header", "_used", "bool", r.used, 0},
		{"CodeBlob", codeField, r.codeType, r.code, 0},
		{"CodeBlob", "_data_offset", "int", r.end, 0},
		{"CodeBlob", "_frame_size", "int", r.size, 0},
		{"CodeBlob", "_frame_complete_offset", r.completeType, r.complete, 0},
		{"AbstractInterpreter", "_code", "StubQueue*", 0, interp},
		{"StubQueue", "_stub_buffer", "address", 8, 0},
		{"StubQueue", "_buffer_limit", "int", 20, 0},
		{"GrowableArray<int>", "_data", "int*", 8, 0},
		{"GrowableArrayBase", "_len", "int", 0, 0},
		{"JavaThread", "_anchor", "JavaFrameAnchor", 656, 0},
	}
	static := m.alloc(8)
	if r.heapArray {
		array, data := m.alloc(16), m.alloc(8)
		m.put32(array, 1)
		m.put64(array+8, data)
		m.put64(data, heap)
		m.put64(static, array)
		fields = append(fields, fieldEntry{"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 0, static})
	} else {
		m.put64(static, heap)
		fields = append(fields, fieldEntry{"CodeCache", "_heap", "CodeHeap*", 0, static})
	}
	m.tables(append(fields, m.counters()...), r.header)
	return m
}

// unloadedAt is the address of the number of classes that were unloaded.
const unloadedAt = imageBase + 0x300

// counters adds some counters, and returns the fields that describe them.
func (m *image) counters() []fieldEntry {
	const start, first = imageBase + 0x100, 0x40
	static := m.alloc(8)
	m.put64(static, start)
	m.put32(start+24, first)
	m.put32(start+28, 2)
	at := uint64(start + first)
	for i, name := range []string{"java.cls.loadedClasses", unloadedClasses} {
		m.put32(at, 0x80)
		m.put32(at+4, 24)
		m.put32(at+16, int(unloadedAt-8+uint64(8*i)-at))
		m.put(at+24, []byte(name)...)
		at += 0x80
	}
	return []fieldEntry{
		{"PerfMemory", "_start", "char*", 0, static},
		{"PerfDataPrologue", "entry_offset", "jint", 24, 0},
		{"PerfDataPrologue", "num_entries", "jint", 28, 0},
		{"PerfDataEntry", "entry_length", "jint", 0, 0},
		{"PerfDataEntry", "name_offset", "jint", 4, 0},
		{"PerfDataEntry", "data_offset", "jint", 16, 0},
	}
}

// tables adds the tables of fields and types.
func (m *image) tables(fields []fieldEntry, header uint64) {
	const entry, kind = "gHotSpotVMStructEntry", "gHotSpotVMTypeEntry"
	for name, v := range map[string]uint64{
		entry + "ArrayStride": 56, entry + "TypeNameOffset": 0, entry + "FieldNameOffset": 8, entry + "TypeStringOffset": 16,
		entry + "OffsetOffset": 32, entry + "AddressOffset": 40,
		kind + "ArrayStride": 40, kind + "TypeNameOffset": 0, kind + "SizeOffset": 32,
	} {
		m.word(name, v)
	}
	at := m.alloc(56 * uint64(len(fields)+1))
	m.word("gHotSpotVMStructs", at)
	for _, f := range fields {
		m.put64(at, m.text(f.typ))
		m.put64(at+8, m.text(f.name))
		m.put64(at+16, m.text(f.kind))
		m.put64(at+32, f.off)
		m.put64(at+40, f.addr)
		at += 56
	}
	at = m.alloc(40 * 3)
	m.word("gHotSpotVMTypes", at)
	m.put64(at, m.text("HeapBlock"))
	m.put64(at+32, header)
	m.put64(at+40, m.text("CodeHeap"))
	m.put64(at+72, 336)
}

// blob adds a blob of so many segments at a segment of the heap, and returns the ip of the code. The code is 16
// bytes after the blob's header of 128 bytes.
func (m *image) blob(r *release, segment, segments, words, complete int) (code uint64) {
	for i := range segments {
		back := i
		for back > 254 {
			back -= 253
		}
		m.put(segmentAt+uint64(segment+i), byte(back))
	}
	block := heapAt + uint64(segment)<<shift
	blob := block + r.header
	m.put(block+r.used, 1)
	code = blob + 144
	if r.codeType == "address" {
		m.put64(blob+r.code, code)
	} else {
		m.put32(blob+r.code, 144)
	}
	m.put32(blob+r.end, segments<<shift-int(r.header))
	m.put32(blob+r.size, words)
	if r.completeType == "int" {
		m.put32(blob+r.complete, complete)
	} else {
		binary.LittleEndian.PutUint16(m.bytes[blob+r.complete-m.base:], uint16(complete))
	}
	return code
}
