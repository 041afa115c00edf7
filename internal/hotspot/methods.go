package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Methods names the code of a Java virtual machine: which methods an address of compiled code is in, and what they are
// called.
type Methods struct {
	heaps []Heap
	at    methodFields
}

// methodFields are offsets in the structures, in bytes.
type methodFields struct {
	blobName uint64

	nmethodMethod, compileID     uint64
	immutable                    uint64 // of the address that pcs and scopes are relative to; 0: the blob
	pcs                          uint64
	scopes                       uint64
	scopesIsAddress              bool
	metadata                     uint64 // 0: after the relocations, in the mutable data
	mutableData, relocationSize  uint64
	pcOff, pcScope, pcSize       uint64
	constMethod                  uint64 // in a Method
	constants, flags, codeSize   uint64 // in a ConstMethod
	constSize, nameIndex, header uint64
	holder, poolHeader           uint64 // in a ConstantPool
	sourceIndex                  uint64
	sourceInPool                 bool
	className                    uint64 // in a Klass
	symbolLength, symbolBody     uint64
	excluded                     uint32 // the number of values that a byte of a compressed number does not have
}

// NewMethods reads how a process's libjvm.so describes methods. symbol returns the ip of a symbol of it.
func NewMethods(mem io.ReaderAt, symbol func(name string) (ip uint64, ok bool)) (*Methods, error) {
	m := &memory{from: mem, pages: map[uint64][]byte{}}
	t, err := readTables(m, symbol)
	if err != nil {
		return nil, err
	}
	var h Heap
	if err := t.layout(&h); err != nil {
		return nil, err
	}
	l := &Methods{heaps: t.heaps(m, &h)}
	if err = l.at.read(t, m); err == nil {
		err = m.err
	}
	if err == nil {
		err = checkHeaps(l.heaps)
	}
	return l, err
}

// Limits of what is read for an address or a method.
const (
	maxPcs      = 1 << 16
	maxInlined  = 128
	maxMethod   = 1 << 20 // bytes of a ConstMethod
	maxSymbol   = 1 << 16
	maxField    = 1 << 12 // offsets
	noBCI       = -1
	nullScope   = 0
	streamBytes = 3 * maxNumber
	maxNumber   = 5 // bytes of a compressed number
)

// read finds the offsets in the tables.
func (f *methodFields) read(t *tables, m *memory) error {
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
		find(&f.mutableData, "CodeBlob._mutable_data")
		find(&f.relocationSize, "CodeBlob._relocation_size")
	} else {
		find(&f.metadata, "nmethod._metadata_offset")
	}
	find(&f.pcOff, "PcDesc._pc_offset")
	find(&f.pcScope, "PcDesc._scope_decode_offset")
	size(&f.pcSize, "PcDesc")
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
	if major := m.int32(t.addr("Abstract_VM_Version._vm_major_version")); !old && major >= excludes {
		f.excluded = 1
	}
	return nil
}

// Call is a method that runs, at an index of its bytecode.
type Call struct {
	Method uint64 // address of the Method
	BCI    int    // -1: before the first
}

// Place is what an address of generated code is in.
type Place struct {
	Compiled uint64 // address of the compiled method, 0 for other code
	ID       uint32 // its number, unique in the process
	Calls    []Call // of a compiled method, the innermost first: the others have it inlined
	Name     uint64 // address of the name of other code
}

var (
	// ErrNoHeap means that an address is in none of the heaps that NewMethods has found: the virtual machine may have
	// been starting.
	ErrNoHeap = errors.New("not in a code heap")
	errNoCode = errors.New("in no block of a code heap")
)

// At returns what an instruction's address is in. For a return address, it is one in the call.
func (l *Methods) At(mem io.ReaderAt, ip uint64) (c Place, err error) {
	w := walk{Code: &Code{Heaps: l.heaps, Mem: mem}}
	i := slices.IndexFunc(l.heaps, func(h Heap) bool { return ip >= h.Low && ip < h.High })
	if i < 0 {
		return c, ErrNoHeap
	}
	w.h = &l.heaps[i]
	block, ok := w.blockOf(ip)
	if !ok {
		return c, errNoCode
	}
	b, ok := w.blobAt(block, ip)
	if !ok {
		return c, errNoCode
	}
	r := reader{mem: mem}
	blob := block + uint64(w.h.Blob)
	c.Name = r.word(blob + l.at.blobName)
	name := r.text(c.Name)
	if r.err != nil || name != "nmethod" && name != "native nmethod" {
		return c, r.err
	}
	c.Compiled, c.ID = blob, r.half(blob+l.at.compileID)
	c.Calls = l.calls(&r, blob, uint32(ip-b.code), uint32(b.size))
	return c, r.err
}

// ID returns the number of the compiled method at an address, which changes if another one takes its memory.
func (l *Methods) ID(mem io.ReaderAt, compiled uint64) (uint32, error) {
	r := reader{mem: mem}
	id := r.half(compiled + l.at.compileID)
	return id, r.err
}

// calls returns the methods that an instruction of a compiled method is in. off is its offset in the code of so many
// bytes.
func (l *Methods) calls(r *reader, blob uint64, off, size uint32) (list []Call) {
	f := &l.at
	base := blob
	if f.immutable != 0 {
		base = r.word(blob + f.immutable)
	}
	scopes := base + uint64(r.half(blob+f.scopes))
	if f.scopesIsAddress {
		scopes = r.word(blob + f.scopes)
	}
	metadata := blob + uint64(r.half(blob+f.metadata))
	if f.metadata == 0 {
		metadata = r.word(blob+f.mutableData) + uint64(r.half(blob+f.relocationSize))
	}
	scope := l.scopeAt(r, base+uint64(r.half(blob+f.pcs)), off, size)
	for range maxInlined {
		if scope == nullScope || r.err != nil {
			break
		}
		s := stream{b: r.some(scopes+uint64(scope), streamBytes), excluded: f.excluded}
		sender, method, bci := s.number(), s.number(), int(s.number())-1
		if s.failed || method == 0 || method > maxPcs {
			break
		}
		list = append(list, Call{r.word(metadata + 8*uint64(method-1)), bci})
		scope = sender
	}
	if len(list) == 0 && r.err == nil {
		list = append(list, Call{r.word(blob + f.nmethodMethod), noBCI})
	}
	return list
}

// scopeAt returns the scope of an instruction: that of the first description after it, as the virtual machine's own
// profilers do, because only calls and loops have one.
func (l *Methods) scopeAt(r *reader, pcs uint64, off, size uint32) uint32 {
	const chunk = 64
	f := &l.at
	for n := 0; n < maxPcs && r.err == nil; n += chunk {
		b := r.some(pcs+uint64(n)*f.pcSize, chunk*int(f.pcSize))
		for ; len(b) >= int(f.pcSize); b = b[f.pcSize:] {
			at := int32(binary.LittleEndian.Uint32(b[f.pcOff:]))
			if at > int32(size) {
				return nullScope
			}
			if at > int32(off) {
				return binary.LittleEndian.Uint32(b[f.pcScope:])
			}
		}
		if len(b) > 0 || n == 0 && r.short {
			return nullScope
		}
	}
	return nullScope
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

// Check returns a hash of a method by its address, as the BPF programs make it: java_check in bpf/java.h.
func Check(mem io.ReaderAt, method uint64) (uint32, error) {
	const constMethod = 8 // in a Method: after its table of functions
	r := reader{mem: mem}
	c := r.word(method + constMethod)
	h := mix(0, c)
	for _, off := range [...]uint64{8, 24, 32} { // the constant pool; the sizes, flags and names
		h = mix(h, r.word(c+off))
	}
	return uint32(h) | 1, r.err
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// Method reads a method.
func (l *Methods) Method(mem io.ReaderAt, addr uint64) (*Method, error) {
	f, r := &l.at, reader{mem: mem}
	c := r.word(addr + f.constMethod)
	pool := r.word(c + f.constants)
	class := r.word(pool + f.holder)
	className := strings.ReplaceAll(r.symbol(r.word(class+f.className), f), "/", ".")
	className = strings.Replace(className, "+", "/", 1) // of hidden classes
	m := &Method{Header: uint32(f.header), Size: uint32(r.short16(c + f.codeSize)),
		Name: className + "." + r.constant(pool, r.short16(c+f.nameIndex), f)}
	source := class + f.sourceIndex
	if f.sourceInPool {
		source = pool + f.sourceIndex
	}
	if i := r.short16(source); i != 0 {
		dir := path.Dir(strings.ReplaceAll(className, ".", "/"))
		m.File = path.Join(dir, r.constant(pool, i, f))
	}
	if r.err != nil {
		return nil, r.err
	}
	const hasLines = 1
	if r.short16(c+f.flags)&hasLines != 0 {
		start := f.header + uint64(m.Size)
		size := 8 * uint64(r.half(c+f.constSize))
		if size > maxMethod || size < start {
			return nil, fmt.Errorf("a method of %d bytes", size)
		}
		m.Lines = lines(r.some(c+start, int(size-start)), f.excluded)
	}
	return m, r.err
}

// Name reads the name of code that is no method.
func (l *Methods) Name(mem io.ReaderAt, addr uint64) (string, error) {
	r := reader{mem: mem}
	s := r.text(addr)
	return s, r.err
}

// lines decodes a compressed table of lines (CompressedLineNumberReadStream): a byte has a small step of both numbers,
// 0xff precedes two large ones, and 0 is the end.
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

// reader reads fields from the memory of a process. After the first error all reads return zeros.
type reader struct {
	mem   io.ReaderAt
	err   error
	short bool // the last some could not read all
}

func (r *reader) read(b []byte, addr uint64) {
	if r.err == nil {
		if _, err := r.mem.ReadAt(b, int64(addr)); err != nil {
			r.err = fmt.Errorf("read memory at %#x: %w", addr, err)
			clear(b)
		}
	}
}

func (r *reader) word(addr uint64) uint64 {
	var b [8]byte
	r.read(b[:], addr)
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) half(addr uint64) uint32 {
	var b [4]byte
	r.read(b[:], addr)
	return binary.LittleEndian.Uint32(b[:])
}

func (r *reader) short16(addr uint64) uint16 {
	var b [2]byte
	r.read(b[:], addr)
	return binary.LittleEndian.Uint16(b[:])
}

// some reads up to n bytes: as many as there are up to the end of a page, if those after it cannot be read.
func (r *reader) some(addr uint64, n int) []byte {
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	r.short = false
	if _, err := r.mem.ReadAt(b, int64(addr)); err == nil {
		return b
	}
	r.short = true
	b = b[:min(uint64(n), pageSize-addr%pageSize)]
	r.read(b, addr)
	return b
}

// text reads a string that ends with a zero byte, of limited length.
func (r *reader) text(addr uint64) string {
	if addr == 0 {
		return ""
	}
	b := r.some(addr, maxName)
	if i := slices.Index(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// constant reads a string of a constant pool.
func (r *reader) constant(pool uint64, index uint16, f *methodFields) string {
	return r.symbol(r.word(pool+f.poolHeader+8*uint64(index)), f)
}

func (r *reader) symbol(addr uint64, f *methodFields) string {
	n := r.short16(addr + f.symbolLength)
	b := make([]byte, n)
	if n > 0 {
		r.read(b, addr+f.symbolBody)
	}
	return string(b)
}

// Header returns the offset of a method's bytecode from its ConstMethod, in bytes.
func (l *Methods) Header() uint32 { return uint32(l.at.header) }
