package args

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gperf/internal/dso"
	leb "gperf/internal/dwarf"
	"gperf/unwind"
)

// Program reads the variables of a file of code from DWARF.
type Program struct {
	path    string
	machine *Machine
	data    *dwarf.Data
	sections
	cfi   *unwind.CFI // nil: none
	types map[dwarf.Offset]*Type
	depth int        // recursion depth of typeAt
	image *dso.Image // the file's headers
}

// openProgram reads the debug information of the program or library at path, which may be in
// another file. The error is a *NoDebugError if there is none.
func openProgram(path string) (p *Program, err error) {
	defer recovered(&err)
	im, err := dso.Open(path)
	if err != nil {
		return nil, err
	}
	defer im.Close()
	p = &Program{path: path, types: map[dwarf.Offset]*Type{}, image: im}
	switch im.Machine {
	case elf.EM_X86_64:
		p.machine = machines["amd64"]
	case elf.EM_AARCH64:
		p.machine = machines["arm64"]
	default:
		return nil, fmt.Errorf("%s is for another machine (%s)", path, im.Machine)
	}
	p.cfi, _ = unwind.NewCFI(im)
	file, err := OpenDebug(im)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return p, p.read(file)
}

// OpenDebug opens the file with the DWARF of a program or library, which may be a separate
// one. The error is a *NoDebugError if there is none.
func OpenDebug(im *dso.Image) (*dso.ELF, error) {
	for debug, err := range new(dso.Locator).Candidates(im.Path, im.BuildID()) {
		if err != nil {
			continue
		}
		ok := debug.Section(".debug_info") != nil || debug.Section(".zdebug_info") != nil
		debug.Close()
		if ok {
			return dso.OpenELF(debug.Path)
		}
	}
	return nil, &NoDebugError{im.Path, "DWARF", nil}
}

// recovered turns a panic into an error: debug/dwarf may panic on damaged files.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the debug information is damaged: %v", r)
	}
}

func (p *Program) read(file *dso.ELF) (err error) {
	if p.data, err = file.DWARF(); err != nil {
		return fmt.Errorf("cannot read DWARF of %s: %w", p.path, err)
	}
	section := func(name string) []byte {
		if s := file.Section(name); s != nil {
			b, _ := s.Data() // references to a missing section are reported as damage
			return b
		}
		return nil
	}
	p.sections = sections{loc: section(".debug_loc"), loclists: section(".debug_loclists"),
		addr: section(".debug_addr"), big: file.ByteOrder == binary.BigEndian}
	p.units = unitsOf(section(".debug_info"), p.big)
	return nil
}

// functionAt is a function at one of the function's addresses, according to DWARF.
type functionAt struct {
	program *Program
	within
	pc       uint64
	unit     *dwarf.Entry
	function *dwarf.Entry
}

// Scope returns the names that are valid at the instruction at offset off of the file. If that is the first
// instruction of a function whose variables get locations in the prologue, it returns the names that are valid
// after the prologue: see Scope.Off. inlined is the requested function, in case off is in an inlined body of it.
func (p *Program) Scope(off uint64, inlined string) (s *Scope, err error) {
	defer recovered(&err)
	pc, ok := p.image.VaddrOfOff(off)
	if !ok {
		return nil, fmt.Errorf("there is no code at offset %#x of %s", off, p.path)
	}
	at, err := p.functionAt(pc)
	if err != nil {
		return nil, err
	}
	at.pc = at.body()
	s = &Scope{Off: off + at.pc - pc, Bias: int64(off - pc), Function: p.string(at.function, dwarf.AttrName)}
	if s.Return, err = at.returned(); err != nil {
		return nil, err
	}
	f := at.frame()
	if err := at.collect(s, f, at.function, inlined, maxDepth); err != nil {
		return nil, err
	}
	return s, at.globals(s, f)
}

// returned returns the type of the return value: for a Go function, of the first result.
func (at *functionAt) returned() (t *Type, err error) {
	if t, ok := at.program.ref(at.function, dwarf.AttrType); ok {
		return at.program.typeAt(t), nil
	}
	t = void
	err = at.program.children(at.function, func(e *dwarf.Entry) error {
		if result, ok := at.program.ref(e, dwarf.AttrType); ok && t == void && at.isResult(e) {
			t = at.program.typeAt(result)
		}
		return nil
	})
	return t, err
}

// isResult reports whether an entry is a result of a Go function.
func (at *functionAt) isResult(e *dwarf.Entry) bool {
	is, _ := at.program.field(e, dwarf.AttrVarParam).(bool)
	return is
}

// functionAt finds the function at pc.
func (p *Program) functionAt(pc uint64) (*functionAt, error) {
	r := p.data.Reader()
	unit, err := r.SeekPC(pc)
	if err != nil {
		return nil, &NoDebugError{p.path, "DWARF of this function", nil}
	}
	at := &functionAt{program: p, within: p.within(unit, r.AddressSize()), pc: pc, unit: unit}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("cannot read DWARF of %s: %w", p.path, err)
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit {
			return nil, &NoDebugError{p.path, "DWARF of this function", nil}
		}
		switch {
		case e.Tag == dwarf.TagSubprogram && p.covers(e, pc):
			at.function = e
			return at, nil
		case e.Tag != dwarf.TagNamespace && e.Tag != dwarf.TagModule && e.Tag != dwarf.TagClassType &&
			e.Tag != dwarf.TagStructType:
			r.SkipChildren()
		}
	}
}

// within returns the data that the lists of a compile unit refer to.
func (p *Program) within(unit *dwarf.Entry, addrSize int) within {
	w := within{
		addrSize: addrSize,
		addrBase: offset(unit.Val(dwarf.AttrAddrBase)),
		listBase: offset(unit.Val(dwarf.AttrLoclistsBase)),
	}
	w.unit, _ = p.unitAt(unit.Offset)
	w.low, _ = unit.Val(dwarf.AttrLowpc).(uint64)
	return w
}

// offset returns the value of an attribute that is an offset in a section.
func offset(v any) uint64 {
	n, _ := v.(int64)
	return uint64(n)
}

func (p *Program) covers(e *dwarf.Entry, pc uint64) bool {
	ranges, err := p.data.Ranges(e)
	return err == nil && slices.ContainsFunc(ranges, func(r [2]uint64) bool { return r[0] <= pc && pc < r[1] })
}

// body returns the address from which on the locations of variables are valid: after the prologue if pc is the
// entry of a function that the compiler did not optimize (as in perf, skip_prologue in
// tools/perf/util/probe-finder.c).
func (at *functionAt) body() uint64 {
	producer, _ := at.unit.Val(dwarf.AttrProducer).(string)
	low, _ := at.function.Val(dwarf.AttrLowpc).(uint64)
	if at.pc != low || optimized(producer) {
		return at.pc
	}
	lines, err := at.program.data.LineReader(at.unit)
	if err != nil || lines == nil {
		return at.pc
	}
	var line dwarf.LineEntry
	second, inside := at.pc, false
	for lines.Next(&line) == nil { // LineReader.SeekPC requires ascending addresses of all functions
		switch {
		case !inside:
			inside = line.Address == at.pc && !line.EndSequence
		case line.EndSequence || !at.program.covers(at.function, line.Address):
			return second
		case line.PrologueEnd:
			return line.Address
		case second == at.pc && line.Address > at.pc && line.IsStmt:
			second = line.Address
		}
	}
	return second
}

// optimized checks the compiler's flags, which GCC records. Go's compiler does not record
// them, and describes exact locations.
func optimized(producer string) bool {
	if strings.HasPrefix(producer, "Go ") {
		return true
	}
	_, flags, ok := strings.Cut(producer, " -O")
	return ok && !strings.HasPrefix(flags, "0")
}

// frame returns the context of the function's location expressions.
func (at *functionAt) frame() *frame {
	low, _ := at.function.Val(dwarf.AttrLowpc).(uint64)
	f := &frame{machine: at.program.machine, big: at.program.big, addrSize: at.addrSize, entry: at.pc == low,
		cfa:   at.cfa,
		addrs: at.program.addrs(at.within)}
	f.base = func() (term, error) {
		expr, err := at.expression(at.function.AttrField(dwarf.AttrFrameBase))
		if err != nil {
			return term{}, err
		}
		inner := *f
		inner.base = func() (term, error) { return term{}, errDamaged }
		w, err := inner.locate(expr)
		if err != nil || w.Pieces != nil {
			return term{}, errComputed
		}
		return term{base: w.Base, off: w.Off, vaddr: w.Base == ""}, nil
	}
	return f
}

// cfa returns the CFA at pc, from CFI.
func (at *functionAt) cfa() (term, error) {
	if at.program.cfi != nil {
		if row, ok := at.program.cfi.Row(at.pc); ok && row.CFA.Kind == unwind.Register {
			name, err := at.program.machine.register(uint64(row.CFA.Reg))
			return term{base: name, off: row.CFA.Off}, err
		}
	}
	if low, _ := at.function.Val(dwarf.AttrLowpc).(uint64); at.pc == low {
		return term{base: "%" + at.program.machine.sp, off: at.program.machine.entry}, nil
	}
	return term{}, errors.New("it is on the stack, whose frame cannot be located without CFI")
}

// expression returns an attribute's location expression, from the attribute's list at pc.
func (at *functionAt) expression(f *dwarf.Field) ([]byte, error) {
	if f == nil {
		return nil, errOut
	}
	switch f.Class {
	case dwarf.ClassExprLoc, dwarf.ClassBlock:
		expr, _ := f.Val.([]byte)
		if len(expr) == 0 {
			return nil, errOut
		}
		return expr, nil
	case dwarf.ClassLocListPtr:
		return at.program.list(at.within, offset(f.Val), at.pc)
	case dwarf.ClassLocList:
		index, _ := f.Val.(uint64)
		return at.program.listx(at.within, index, at.pc)
	}
	return nil, errDamaged
}

// collect adds the variables of the function, or of one of the function's blocks, to s: variables of inner blocks
// first. If there is a body of the inlined function at pc, it adds only the variables of that.
func (at *functionAt) collect(s *Scope, f *frame, block *dwarf.Entry, inlined string, depth int) error {
	if depth == 0 {
		return errors.New("blocks are nested too deep in the debug information")
	}
	var own []Var
	inner := Scope{}
	err := at.program.children(block, func(e *dwarf.Entry) error {
		switch e.Tag {
		case dwarf.TagFormalParameter, dwarf.TagVariable:
			if v, ok := at.variable(e, f); ok {
				own = append(own, v)
			}
		case dwarf.TagLexDwarfBlock:
			if at.program.covers(e, at.pc) {
				return at.collect(&inner, f, e, inlined, depth-1)
			}
		case dwarf.TagInlinedSubroutine:
			if inlined == "" || !at.program.covers(e, at.pc) {
				return nil
			}
			body := &Scope{}
			if err := at.collect(body, f, e, inlined, depth-1); err != nil {
				return err
			}
			if at.program.string(e, dwarf.AttrName) == inlined && body.Function == "" {
				body.Function = inlined
			}
			if body.Function != "" {
				inner = *body
			}
		}
		return nil
	})
	if inner.Function != "" {
		s.Function, s.Vars = inner.Function, inner.Vars
		return err
	}
	s.Vars = append(inner.Vars, own...)
	return err
}

// globals adds the variables of the unit outside functions.
func (at *functionAt) globals(s *Scope, f *frame) error {
	return at.program.children(at.unit, func(e *dwarf.Entry) error {
		if e.Tag == dwarf.TagVariable {
			if v, ok := at.variable(e, f); ok && s.Lookup(v.Name) == nil {
				v.Global = true
				s.Vars = append(s.Vars, v)
			}
		}
		return nil
	})
}

// children calls do with each child of e.
func (p *Program) children(e *dwarf.Entry, do func(*dwarf.Entry) error) (err error) {
	defer recovered(&err)
	if !e.Children {
		return nil
	}
	r := p.data.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil {
		return err
	}
	for {
		c, err := r.Next()
		if err != nil {
			return fmt.Errorf("cannot read DWARF of %s: %w", p.path, err)
		}
		if c == nil || c.Tag == 0 {
			return nil
		}
		r.SkipChildren()
		if err := do(c); err != nil {
			return err
		}
	}
}

// variable returns the variable of an entry; ok is false if it is unnamed, only declared, or a result of a Go
// function.
func (at *functionAt) variable(e *dwarf.Entry, f *frame) (v Var, ok bool) {
	v.Name = at.program.string(e, dwarf.AttrName)
	t, typed := at.program.ref(e, dwarf.AttrType)
	location := e.AttrField(dwarf.AttrLocation)
	if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); v.Name == "" || !typed || declared && location == nil ||
		at.isResult(e) {
		return v, false
	}
	v.Param = e.Tag == dwarf.TagFormalParameter
	v.Type = at.program.typeAt(t)
	if n, ok := at.program.field(e, dwarf.AttrConstValue).(int64); ok && location == nil {
		v.Where.Base = fmt.Sprintf("\\%d", n)
		return v, true
	}
	expr, err := at.expression(location)
	if err == nil {
		v.Where, err = f.locate(expr)
	}
	v.Err = err
	return v, true
}

// field returns an attribute of an entry, or of the entry's abstract origin or specification.
func (p *Program) field(e *dwarf.Entry, a dwarf.Attr) any {
	for range maxNesting {
		if v := e.Val(a); v != nil {
			return v
		}
		off, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if off, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				return nil
			}
		}
		origin, err := p.entry(off)
		if err != nil {
			return nil
		}
		e = origin
	}
	return nil
}

func (p *Program) entry(off dwarf.Offset) (e *dwarf.Entry, err error) {
	defer recovered(&err)
	r := p.data.Reader()
	r.Seek(off)
	e, err = r.Next()
	if err == nil && e == nil {
		err = errDamaged
	}
	return e, err
}

func (p *Program) string(e *dwarf.Entry, a dwarf.Attr) string {
	s, _ := p.field(e, a).(string)
	return s
}

func (p *Program) ref(e *dwarf.Entry, a dwarf.Attr) (dwarf.Offset, bool) {
	off, ok := p.field(e, a).(dwarf.Offset)
	return off, ok
}

// typeAt returns the type of the entry at off.
func (p *Program) typeAt(off dwarf.Offset) *Type {
	if t, ok := p.types[off]; ok {
		return t
	}
	t := unknown("(unknown_type)") // placeholder, in case a type refers to itself
	if p.depth > maxDepth {
		return t
	}
	p.depth++
	defer func() { p.depth-- }()
	p.types[off] = t
	if e, err := p.entry(off); err == nil {
		t = p.typeOf(e)
		p.types[off] = t
	}
	return t
}

// DW_ATE_* (DWARF 5, 7.8).
const (
	ateFloat      = 0x04
	ateSigned     = 0x05
	ateSignedChar = 0x06
)

func (p *Program) typeOf(e *dwarf.Entry) *Type {
	name, _ := e.Val(dwarf.AttrName).(string)
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	elem := func() *Type {
		if off, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
			return p.typeAt(off)
		}
		return void
	}
	switch e.Tag {
	case dwarf.TagBaseType:
		encoding, _ := e.Val(dwarf.AttrEncoding).(int64)
		if encoding == ateFloat {
			return &Type{Name: name, Kind: Float, Size: size}
		}
		return &Type{Name: name, Kind: Int, Size: size, Signed: encoding == ateSigned || encoding == ateSignedChar}
	case dwarf.TagEnumerationType:
		return &Type{Name: "enum " + name, Kind: Enum, Size: size}
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
		return pointer(pointerSize, elem)
	case dwarf.TagArrayType:
		return p.array(e, elem())
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		return p.structure(e, name, size)
	case dwarf.TagSubroutineType:
		return function
	case dwarf.TagTypedef:
		named := *elem()
		named.Name = name
		return &named
	case dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, atomicType:
		return elem()
	}
	return unknown("(unknown_type)")
}

// atomicType is DW_TAG_atomic_type of DWARF 5.
const atomicType = dwarf.Tag(0x47)

// array returns an array type; with several dimensions the first is the outermost.
func (p *Program) array(e *dwarf.Entry, t *Type) *Type {
	var dimensions []int64
	p.children(e, func(c *dwarf.Entry) error {
		if c.Tag != dwarf.TagSubrangeType {
			return nil
		}
		n, ok := c.Val(dwarf.AttrCount).(int64)
		if upper, is := c.Val(dwarf.AttrUpperBound).(int64); is && !ok {
			n = upper + 1
		}
		dimensions = append(dimensions, n)
		return nil
	})
	for i := len(dimensions) - 1; i >= 0; i-- {
		t = array(dimensions[i], t)
	}
	return t
}

func (p *Program) structure(e *dwarf.Entry, name string, size int64) *Type {
	word := map[dwarf.Tag]string{dwarf.TagStructType: "struct ", dwarf.TagClassType: "class ",
		dwarf.TagUnionType: "union "}[e.Tag]
	if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); declared {
		return unknown(word + name)
	}
	return &Type{Name: word + name, Kind: Struct, Size: size, fields: func() (l []Field) {
		p.children(e, func(c *dwarf.Entry) error {
			if off, ok := c.Val(dwarf.AttrType).(dwarf.Offset); ok &&
				(c.Tag == dwarf.TagMember || c.Tag == dwarf.TagInheritance) {
				l = append(l, p.member(c, p.typeAt(off)))
			}
			return nil
		})
		return l
	}}
}

// memberOffset returns the offset of a member in the struct, in bytes. Before DWARF 4 it is a location expression.
func (p *Program) memberOffset(e *dwarf.Entry) int64 {
	switch at := e.Val(dwarf.AttrDataMemberLoc).(type) {
	case int64:
		return at
	case []byte:
		c := leb.Cursor{B: at, Big: p.big}
		if c.U8() == leb.OpPlusUconst {
			return int64(c.ULEB())
		}
	}
	return 0
}

// member returns the member of an entry. Bit-fields are numbered from the lowest bit since
// DWARF 4, before that from the highest bit of the field's type.
func (p *Program) member(e *dwarf.Entry, t *Type) Field {
	name, _ := e.Val(dwarf.AttrName).(string)
	bits, _ := e.Val(dwarf.AttrBitSize).(int64)
	f := Field{Name: name, Type: t, Bit: 8 * p.memberOffset(e), Bits: bits}
	if bit, ok := e.Val(dwarf.AttrDataBitOffset).(int64); ok {
		f.Bit = bit
	} else if high, ok := e.Val(dwarf.AttrBitOffset).(int64); ok {
		size, ok := e.Val(dwarf.AttrByteSize).(int64)
		if !ok {
			size = t.Size
		}
		f.Bit += 8*size - high - bits
	}
	if e.Tag == dwarf.TagInheritance {
		f.Name = "" // a base class's members are looked up like an anonymous struct's
	}
	return f
}
