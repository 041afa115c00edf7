package hotspot

import (
	"fmt"
	"slices"
	"strings"

	"gperf/internal/procmem"
)

// tables is the exported descriptions of fields and types that Read needs.
type tables struct {
	fields map[string]field  // by TYPE.FIELD
	sizes  map[string]uint64 // bytes, by type
}

// field is an entry of gHotSpotVMStructs.
type field struct {
	kind string // the field's type
	off  uint64 // in the object
	addr uint64 // of a static field
}

// needed are the types whose fields are kept.
var needed = []string{"CodeCache", "CodeHeap", "CodeBlob", "VirtualSpace", "HeapBlock::Header", "GrowableArrayBase",
	"GenericGrowableArray", "GrowableArray<int>", "AbstractInterpreter", "StubQueue", "Abstract_VM_Version",
	"nmethod", "CompiledMethod", "PcDesc", "Method", "ConstMethod", "ConstantPool", "Symbol", "Klass", "InstanceKlass",
	"PerfMemory", "PerfDataPrologue", "PerfDataEntry"}

// sized are the types whose sizes are kept.
var sized = []string{"HeapBlock", "PcDesc", "ConstMethod", "ConstantPool"}

// maxEntries limits the entries of a table: vmStructs.cpp contains some 3,000.
const maxEntries = 20_000

// maxStride limits the size of an entry, in bytes.
const maxStride = 1024

// readTables reads the tables.
func readTables(m *procmem.Cursor, symbol func(string) (uint64, bool)) (*tables, error) {
	t := &tables{fields: map[string]field{}, sizes: map[string]uint64{}}
	structs, err := readLayout(m, symbol, "gHotSpotVMStructs", "gHotSpotVMStructEntry",
		"TypeName", "FieldName", "TypeString", "Offset", "Address")
	if err != nil {
		return nil, err
	}
	for e := range structs.entries(m) {
		name := m.String(e[0], maxName)
		if !slices.Contains(needed, name) {
			continue
		}
		name += "." + m.String(e[1], maxName)
		t.fields[name] = field{kind: strings.TrimPrefix(m.String(e[2], maxName), "const "), off: e[3], addr: e[4]}
	}
	types, err := readLayout(m, symbol, "gHotSpotVMTypes", "gHotSpotVMTypeEntry", "TypeName", "Size")
	if err != nil {
		return nil, err
	}
	for e := range types.entries(m) {
		if name := m.String(e[0], maxName); slices.Contains(sized, name) {
			t.sizes[name] = e[1]
		}
	}
	if m.Err != nil {
		return nil, m.Err
	}
	return t, t.check()
}

// check returns an error if a field is missing that all versions contain.
func (t *tables) check() error {
	for _, name := range []string{"CodeHeap._memory", "CodeHeap._segmap", "CodeHeap._log2_segment_size",
		"VirtualSpace._low", "VirtualSpace._high_boundary", "AbstractInterpreter._code", "StubQueue._stub_buffer",
		"StubQueue._buffer_limit", "GrowableArray<int>._data"} {
		if _, ok := t.fields[name]; !ok {
			return fmt.Errorf("field %s: missing", name)
		}
	}
	return nil
}

// first returns the offset of the first of some fields that this version contains.
func (t *tables) first(names ...string) (off uint64, kind string, ok bool) {
	for _, name := range names {
		if f, ok := t.fields[name]; ok {
			return f.off, f.kind, true
		}
	}
	return 0, "", false
}

func (t *tables) off(name string) uint64  { return t.fields[name].off }
func (t *tables) addr(name string) uint64 { return t.fields[name].addr }

// table is one of libjvm.so's tables: an array of structs that ends with a null name.
type table struct {
	at, stride uint64
	offsets    []uint64 // of the words that are read of each entry
}

// readLayout reads the address of a table and the offsets of the words in the table's entries.
func readLayout(m *procmem.Cursor, symbol func(string) (uint64, bool), name, entry string,
	words ...string) (*table, error) {
	value := func(name string) (uint64, error) {
		ip, ok := symbol(name)
		if !ok {
			return 0, fmt.Errorf("symbol %s: missing", name)
		}
		return m.Word(ip), m.Err
	}
	t := &table{}
	var err error
	if t.at, err = value(name); err != nil {
		return nil, err
	}
	if t.stride, err = value(entry + "ArrayStride"); err != nil {
		return nil, err
	}
	for _, word := range words {
		off, err := value(entry + word + "Offset")
		if err != nil {
			return nil, err
		}
		t.offsets = append(t.offsets, off)
	}
	if t.at == 0 || t.stride < 8 || t.stride > maxStride || slices.Max(t.offsets) > t.stride-8 {
		return nil, fmt.Errorf("%s at %#x: entries of %d bytes", name, t.at, t.stride)
	}
	return t, nil
}

// entries returns the words of each entry, valid until the next one.
func (t *table) entries(m *procmem.Cursor) func(yield func([]uint64) bool) {
	return func(yield func([]uint64) bool) {
		words := make([]uint64, len(t.offsets))
		for i := range uint64(maxEntries) {
			for k, off := range t.offsets {
				words[k] = m.Word(t.at + i*t.stride + off)
			}
			if words[0] == 0 || m.Err != nil || !yield(words) {
				return
			}
		}
	}
}

// IsSymbol reports whether Read may ask for a symbol.
func IsSymbol(name string) bool { return strings.HasPrefix(name, "gHotSpotVM") }
