package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gperf/internal/procmem"
)

// Methods names the code of a Java virtual machine: which methods an address of compiled code is in, and the names of
// these methods.
type Methods struct {
	heaps    []Heap
	at       methodFields
	unloaded uint64 // as Heap's
}

// methodFields are offsets in the structures, in bytes.
type methodFields struct {
	blobName uint64

	nmethodMethod, compileID                 uint64
	immutable, immutableSize                 uint64 // of the address that pcs and scopes are relative to; 0: the blob
	pcs                                      uint64
	scopes                                   uint64
	scopesIsAddress                          bool
	metadata                                 uint64 // 0: after the relocations, in the mutable data
	mutableData, mutableSize, relocationSize uint64
	pcOff, pcScope, pcSize                   uint64
	constMethod                              uint64 // in a Method
	constants, flags, codeSize               uint64 // in a ConstMethod
	constSize, nameIndex, header             uint64
	holder, poolHeader                       uint64 // in a ConstantPool
	sourceIndex                              uint64
	sourceInPool                             bool
	className                                uint64 // in a Klass
	symbolLength, symbolBody                 uint64
	excluded                                 uint32 // number of values that bytes of compressed numbers never take
}

// NewMethods reads how a process's libjvm.so describes methods. symbol returns the ip of a symbol of it.
func NewMethods(mem io.ReaderAt, symbol func(name string) (ip uint64, ok bool)) (*Methods, error) {
	m := procmem.NewCursor(mem, maxPages)
	t, err := readTables(m, symbol)
	if err != nil {
		return nil, err
	}
	var h Heap
	if err := t.layout(&h); err != nil {
		return nil, err
	}
	l := &Methods{heaps: t.heaps(m, &h), unloaded: t.counter(m, unloadedClasses)}
	if err = l.at.read(t, m); err == nil {
		err = m.Err
	}
	if err == nil {
		err = checkHeaps(l.heaps)
	}
	return l, err
}

// Limits of reads from a process, and for an address or a method.
const (
	maxPages   = 4096 // a virtual machine's tables take some hundred
	maxName    = 128  // bytes of a name in them
	maxPcs     = 1 << 16
	maxInlined = 128
	maxMethod  = 1 << 20 // bytes of a ConstMethod
	maxPart    = 4 << 20 // bytes of the descriptions of a compiled method
	maxSymbol  = 1 << 16
	maxField   = 1 << 12 // offsets
	noBCI      = -1
	nullScope  = 0
	maxNumber  = 5 // bytes of a compressed number
)

// read finds the offsets in the tables.
func (f *methodFields) read(t *tables, m *procmem.Cursor) error {
	var missing []string
	find := func(to *uint64, names ...string) string {
		off, kind, ok := t.first(names...)
		if !ok || off > maxField {
			missing = append(missing, names[0])
		}
		*to = off
		return kind
	}
	size := func(to *uint64, name string) {
		if *to = t.sizes[name]; *to == 0 || *to > maxField {
			missing = append(missing, "size of "+name)
		}
	}
	find(&f.blobName, "CodeBlob._name")
	find(&f.nmethodMethod, "nmethod._method", "CompiledMethod._method")
	find(&f.compileID, "nmethod._compile_id")
	find(&f.pcs, "nmethod._scopes_pcs_offset")
	scopes := find(&f.scopes, "nmethod._scopes_data_offset", "CompiledMethod._scopes_data_begin",
		"nmethod._scopes_data_begin")
	f.scopesIsAddress = scopes == "address"
	if off, _, ok := t.first("nmethod._immutable_data"); ok {
		f.immutable = off
		find(&f.immutableSize, "nmethod._immutable_data_size")
		find(&f.mutableData, "CodeBlob._mutable_data")
		find(&f.mutableSize, "CodeBlob._mutable_data_size")
		find(&f.relocationSize, "CodeBlob._relocation_size")
	} else {
		find(&f.metadata, "nmethod._metadata_offset")
	}
	find(&f.pcOff, "PcDesc._pc_offset")
	find(&f.pcScope, "PcDesc._scope_decode_offset")
	size(&f.pcSize, "PcDesc")
	if max(f.pcOff, f.pcScope)+4 > f.pcSize {
		missing = append(missing, "fields in PcDesc")
	}
	find(&f.constMethod, "Method._constMethod")
	find(&f.constants, "ConstMethod._constants")
	find(&f.flags, "ConstMethod._flags", "ConstMethod._flags._flags")
	find(&f.codeSize, "ConstMethod._code_size")
	find(&f.constSize, "ConstMethod._constMethod_size")
	find(&f.nameIndex, "ConstMethod._name_index")
	size(&f.header, "ConstMethod")
	find(&f.holder, "ConstantPool._pool_holder")
	size(&f.poolHeader, "ConstantPool")
	_, _, f.sourceInPool = t.first("ConstantPool._source_file_name_index")
	find(&f.sourceIndex, "ConstantPool._source_file_name_index", "InstanceKlass._source_file_name_index")
	find(&f.className, "Klass._name")
	find(&f.symbolLength, "Symbol._length")
	find(&f.symbolBody, "Symbol._body", "Symbol._body[0]")
	if len(missing) > 0 {
		return fmt.Errorf("libjvm.so does not describe %s", strings.Join(missing, ", "))
	}
	const excludes = 20 // the first version in which bytes of compressed numbers are not 0
	_, old := t.fields["CodeCache._heap"]
	if major := m.Int32(t.addr("Abstract_VM_Version._vm_major_version")); !old && major >= excludes {
		f.excluded = 1
	}
	return nil
}

// Call is a running method, at an index of the bytecode.
type Call struct {
	Method uint64 // address of the Method
	BCI    int    // -1: before the first
}

// Place is code generated by HotSpot.
type Place struct {
	Code, Size uint64 // ip of the first instruction, and size in bytes
	Name       uint64 // address of the name of code that is no compiled method; 0 for a method
	Compiled   uint64 // address of the compiled method
	ID         uint32 // the method's number, unique in the process

	method   uint64
	pcs      []byte   // descriptions of instructions
	scopes   []byte   // that they refer to
	metadata []uint64 // that those refer to
	at       *methodFields
}

var (
	// ErrNoHeap means that no heap found by NewMethods contains an address: the virtual machine may have been
	// starting.
	ErrNoHeap = errors.New("not in a code heap")
	errNoCode = errors.New("in no block of a code heap")
)

// At returns the code that contains an address.
func (l *Methods) At(mem io.ReaderAt, ip uint64) (*Place, error) {
	w := walk{code: &Code{Heaps: l.heaps, Mem: mem}}
	i := slices.IndexFunc(l.heaps, func(h Heap) bool { return ip >= h.Low && ip < h.High })
	if i < 0 {
		return nil, ErrNoHeap
	}
	w.h = &l.heaps[i]
	block, ok := w.blockOf(ip)
	if !ok {
		return nil, errNoCode
	}
	b, ok := w.blobAt(block, ip)
	if !ok {
		return nil, errNoCode
	}
	m := procmem.NewCursor(mem, maxPages)
	blob := block + uint64(w.h.Blob)
	p := &Place{Code: b.code, Size: b.size, Name: m.Word(blob + l.at.blobName), at: &l.at}
	if name := m.String(p.Name, maxName); name == "nmethod" || name == "native nmethod" {
		p.Name = 0
		p.read(m, blob)
	}
	return p, m.Err
}

// ID returns the number of the compiled method at an address, which changes if another method takes the memory.
func (l *Methods) ID(mem io.ReaderAt, compiled uint64) (uint32, error) {
	var b [4]byte
	_, err := mem.ReadAt(b[:], int64(compiled+l.at.compileID))
	return binary.LittleEndian.Uint32(b[:]), err
}

// Generation returns the lowest 32 bits of the number of unloaded classes; 0 if the virtual machine does not count
// them. HotSpot reuses the memory of a class only after this number changed.
func (l *Methods) Generation(mem io.ReaderAt) (uint32, error) {
	if l.unloaded == 0 {
		return 0, nil
	}
	var b [4]byte
	_, err := mem.ReadAt(b[:], int64(l.unloaded))
	return binary.LittleEndian.Uint32(b[:]), err
}

// read reads the descriptions of a compiled method. Up to JDK 22, they follow the method's code: metadata, scopes,
// pcs. Later, pcs and scopes are in one separate block of memory, and metadata in another one.
func (p *Place) read(m *procmem.Cursor, blob uint64) {
	f := p.at
	off := func(field uint64) uint64 { return uint64(uint32(m.Int32(blob + field))) }
	p.Compiled, p.ID, p.method = blob, uint32(off(f.compileID)), m.Word(blob+f.nmethodMethod)
	if f.immutable == 0 {
		pcs, metadata, scopes := blob+off(f.pcs), blob+off(f.metadata), blob+off(f.scopes)
		if f.scopesIsAddress {
			scopes = m.Word(blob + f.scopes)
		}
		p.pcs = p.untilLast(m, pcs)
		p.scopes = m.Part(scopes, pcs, maxPart)
		p.metadata = words(m.Part(metadata, scopes, maxPart))
		return
	}
	base, mutable := m.Word(blob+f.immutable), m.Word(blob+f.mutableData)
	p.pcs = p.untilLast(m, base+off(f.pcs))
	p.scopes = m.Part(base+off(f.scopes), base+off(f.immutableSize), maxPart)
	p.metadata = words(m.Part(mutable+off(f.relocationSize), mutable+off(f.mutableSize), maxPart))
}

// untilLast reads the descriptions of instructions, as far as there are any: the last one is of one after the code.
func (p *Place) untilLast(from *procmem.Cursor, at uint64) (list []byte) {
	m, b := from.Again(), make([]byte, p.at.pcSize)
	for range maxPcs {
		if m.Bytes(b, at); m.Err != nil || int32(binary.LittleEndian.Uint32(b[p.at.pcOff:])) > int32(p.Size) {
			return list
		}
		list, at = append(list, b...), at+uint64(len(b))
	}
	return list
}

// Calls returns the methods that an instruction of a compiled method is in, the innermost first: each method is
// inlined into the next. For a return address, ip must be an address in the call.
func (p *Place) Calls(ip uint64) (list []Call) {
	scope := p.scopeAt(uint32(ip - p.Code))
	for range maxInlined {
		if scope == nullScope || uint64(scope) >= uint64(len(p.scopes)) {
			break
		}
		s := stream{b: p.scopes[scope:], excluded: p.at.excluded}
		sender, method, bci := s.number(), s.number(), int(s.number())-1
		if s.failed || method == 0 || uint64(method) > uint64(len(p.metadata)) {
			break
		}
		list = append(list, Call{p.metadata[method-1], bci})
		scope = sender
	}
	if len(list) == 0 {
		list = append(list, Call{p.method, noBCI})
	}
	return list
}

// scopeAt returns the scope of an instruction: the scope in the first description after it, as the virtual
// machine's own profilers do, because only calls and loops are described.
func (p *Place) scopeAt(off uint32) uint32 {
	size, le := int(p.at.pcSize), binary.LittleEndian
	n := len(p.pcs) / size
	i := sort.Search(n, func(i int) bool { return int32(le.Uint32(p.pcs[i*size+int(p.at.pcOff):])) > int32(off) })
	if i == n {
		return nullScope
	}
	return le.Uint32(p.pcs[i*size+int(p.at.pcScope):])
}

// Method is a method.
type Method struct {
	Name   string // java.util.HashMap.get
	File   string // java/util/HashMap.java, "" if unknown
	Header uint32 // offset of the bytecode from the ConstMethod
	Size   uint32 // of the bytecode
	Lines  []MethodLine
}

// MethodLine is the line from an index of the bytecode on.
type MethodLine struct{ BCI, Line int }

// Method reads a method.
func (l *Methods) Method(mem io.ReaderAt, addr uint64) (*Method, error) {
	f, m := &l.at, procmem.NewCursor(mem, maxPages)
	c := m.Word(addr + f.constMethod)
	pool := m.Word(c + f.constants)
	class := m.Word(pool + f.holder)
	className := strings.ReplaceAll(f.symbol(m, m.Word(class+f.className)), "/", ".")
	className, _, _ = strings.Cut(className, "+0x") // a hidden class: the address differs from run to run
	fn := &Method{Header: uint32(f.header), Size: uint32(m.Uint16(c + f.codeSize)),
		Name: className + "." + f.constant(m, pool, m.Uint16(c+f.nameIndex))}
	source := class + f.sourceIndex
	if f.sourceInPool {
		source = pool + f.sourceIndex
	}
	if i := m.Uint16(source); i != 0 && m.Err == nil {
		dir := path.Dir(strings.ReplaceAll(className, ".", "/"))
		// The number in methods that the virtual machine makes, such as linkToStatic, belongs to another pool.
		named := procmem.NewCursor(mem, maxPages)
		if file := f.constant(named, pool, i); named.Err == nil && file != "" {
			fn.File = path.Join(dir, file)
		}
	}
	if m.Err != nil {
		return nil, m.Err
	}
	const hasLines = 1
	if m.Uint16(c+f.flags)&hasLines != 0 {
		start := f.header + uint64(fn.Size)
		size := 8 * uint64(uint32(m.Int32(c+f.constSize)))
		if size > maxMethod || size < start {
			return nil, fmt.Errorf("a method of %d bytes", size)
		}
		fn.Lines = lines(m.Part(c+start, c+size, maxPart), f.excluded)
	}
	return fn, m.Err
}

// Name reads the name of code that is no method.
func (l *Methods) Name(mem io.ReaderAt, addr uint64) (string, error) {
	m := procmem.NewCursor(mem, maxPages)
	s := m.String(addr, maxName)
	return s, m.Err
}

// lines decodes a compressed table of lines (CompressedLineNumberReadStream): a byte encodes a small step of both
// numbers, 0xff precedes two large steps, and 0 is the end.
func lines(b []byte, excluded uint32) (l []MethodLine) {
	s := stream{b: b, excluded: excluded}
	bci, line := 0, 0
	for len(s.b) > 0 {
		switch c := s.b[0]; c {
		case 0:
			return l
		case 0xff:
			s.b = s.b[1:]
			bci += s.signed()
			line += s.signed()
		default:
			s.b = s.b[1:]
			bci += int(c >> 3)
			line += int(c & 7)
		}
		if s.failed || bci < 0 || line < 0 || line > 1<<30 {
			return l
		}
		l = append(l, MethodLine{bci, line})
	}
	return l
}

// stream decodes compressed numbers (UNSIGNED5).
type stream struct {
	b        []byte
	excluded uint32
	failed   bool
}

func (s *stream) number() (v uint32) {
	const high, bits = 64, 6 // a byte of at least 256 - high is followed by another one
	low := uint32(256-high) - s.excluded
	for i := range maxNumber {
		if len(s.b) == 0 || uint32(s.b[0]) < s.excluded {
			s.failed = true
			return 0
		}
		c := uint32(s.b[0]) - s.excluded
		s.b = s.b[1:]
		v += c << (bits * i)
		if c < low {
			break
		}
	}
	return v
}

func (s *stream) signed() int {
	v := s.number()
	return int(int32(v>>1) ^ -int32(v&1))
}

// words decodes words.
func words(b []byte) []uint64 {
	l := make([]uint64, len(b)/8)
	for i := range l {
		l[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return l
}

// constant reads a string of a constant pool.
func (f *methodFields) constant(m *procmem.Cursor, pool uint64, index uint16) string {
	return f.symbol(m, m.Word(pool+f.poolHeader+8*uint64(index)))
}

func (f *methodFields) symbol(m *procmem.Cursor, addr uint64) string {
	b := make([]byte, m.Uint16(addr+f.symbolLength))
	m.Bytes(b, addr+f.symbolBody)
	return text(b)
}

// text decodes the UTF-8 of class files, in which a character above U+FFFF is a pair of surrogates, and NUL two bytes.
func text(b []byte) string {
	s := make([]byte, 0, len(b))
	for len(b) > 0 {
		if len(b) >= 2 && b[0] == 0xc0 && b[1] == 0x80 {
			s, b = append(s, 0), b[2:]
			continue
		}
		if hi, lo := surrogate(b), surrogate(b[min(3, len(b)):]); hi != 0 && lo != 0 {
			s, b = utf8.AppendRune(s, utf16.DecodeRune(hi, lo)), b[6:]
			continue
		}
		s, b = append(s, b[0]), b[1:]
	}
	return string(s)
}

// surrogate returns the surrogate that 3 bytes encode, or 0.
func surrogate(b []byte) rune {
	if len(b) < 3 || b[0] != 0xed || b[1] < 0xa0 {
		return 0
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f)
}

// Header returns the offset of a method's bytecode from the ConstMethod, in bytes.
func (l *Methods) Header() uint32 { return uint32(l.at.header) }
