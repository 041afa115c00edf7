package runtimes

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gperf/internal/dso"
)

// v8 is V8, the JavaScript engine of Node.js, in a program or library.
type v8 struct {
	version [2]int // 11, 3
	// walk locates the functions of frames. Builtins are vaddrs.
	walk    v8Walk
	objects v8Objects
	// layout and bytecodes are empty if they are not known. Then no lines are found for generated code.
	layout    v8Layout
	bytecodes v8Bytecodes
}

// v8Walk locates the function of a frame, and the fields that identify a function: offsets in bytes from the frame
// pointer and in objects.
//
//bpf:struct v8
type v8Walk struct {
	BuiltinsStart, BuiltinsEnd          uint64 // vaddrs of builtins, which run interpreted functions
	Context, Function, Bytecode, Offset int16  // below the frame pointer
	Shared                              uint16 // in a JSFunction: the SharedFunctionInfo
	Data, Script, Literal               uint16 // in that
	ScriptID                            uint16 // in a Script
	BytecodeHeader                      uint16 // the size of the header before the instructions in a BytecodeArray
}

// v8Objects are the offsets and types that are only needed to read names.
type v8Objects struct {
	instanceType                                             uint64 // in a map
	nameOrScope                                              uint64 // in a SharedFunctionInfo
	firstLocal                                               int    // in a ScopeInfo: words before the variables
	positions                                                int    // in a ScopeInfo: words before; 0: after names
	length, first, second, actual, parent, offset            uint64 // in strings
	chars, resource                                          uint64
	source, scriptName, lineOffset                           uint64 // in a Script
	bytecode                                                 uint64 // in baseline Code
	sourcePositions                                          uint64 // in a BytecodeArray
	mapType, sharedType, scopeType, scriptType, bytecodeType uint16
	codeType, oneByteMask, representationMask, notStringMask uint16
}

// Kinds of strings, with the same numbers in all versions of V8.
const (
	v8Seq = iota
	v8Cons
	v8External
	v8Sliced
	v8Thin = 5
)

// v8First and v8Last limit the versions whose objects are known: the versions in Node.js 18 and 24.
const (
	v8First = 10
	v8Last  = 13
)

// String implements Runtime.
func (v *v8) String() string { return fmt.Sprintf("V8 %d.%d", v.version[0], v.version[1]) }

// DSO implements Runtime.
func (v *v8) DSO() string { return dso.JavaScriptName }

// Walk implements Runtime. BPF gets vaddrs of the builtins, because V8 may map the builtins twice.
func (v *v8) Walk(uint64) Walk {
	return newWalk(kindV8, &v.walk)
}

// In implements Runtime.
func (v *v8) In(uint64) Process { return &nativeFrames{binder: &v8Process{vm: v}} }

// v8Process is V8 in a process.
type v8Process struct {
	vm      *v8
	scripts v8Scripts
	codes   v8Codes
	types   map[uint64]uint16 // by map, of objects whose maps never change
}

// heap returns the heap of a process, whose memory is mem.
func (v *v8Process) heap(mem io.ReaderAt) *v8Heap {
	if v.types == nil {
		v.types = map[uint64]uint16{}
	}
	return &v8Heap{mem, &v.vm.objects, v.types}
}

// v8Prefix begins the names of the numbers that V8 exports for debuggers.
const v8Prefix = "v8dbg_"

// v8Constants are the vaddrs of V8's numbers, by name without v8Prefix, and the range of builtins.
type v8Constants struct {
	im           *dso.Image
	at           map[string]uint64
	major, minor uint64 // vaddrs of the version
	builtins     Range
	sizes        Range // of bytecodes
	err          error // the first one of the constants that are missing
}

const (
	v8Major = "_ZN2v88internal7Version6major_E"
	v8Minor = "_ZN2v88internal7Version6minor_E"
	v8Sizes = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
	// v8Builtin begins the names of builtins, which stripped files lack.
	v8Builtin = "Builtins_"
)

// findV8 returns V8 in a file, or nil if the file does not contain V8.
func findV8(im *dso.Image) (Runtime, error) {
	c := &v8Constants{im: im, at: map[string]uint64{}}
	if !c.read() {
		return nil, nil
	}
	return c.v8()
}

// read finds the symbols, and reports whether V8's numbers are among them.
func (c *v8Constants) read() bool {
	for name, s := range definedSymbols(c.im, ".dynsym", ".symtab") {
		switch {
		case strings.HasPrefix(name, v8Prefix):
			c.at[name[len(v8Prefix):]] = s.Value
		case name == v8Major:
			c.major = s.Value
		case name == v8Minor:
			c.minor = s.Value
		case name == v8Sizes:
			c.sizes = Range{s.Value, s.Value + s.Size}
		case strings.HasPrefix(name, v8Builtin):
			c.addBuiltin(Range{s.Value, s.Value + s.Size})
		}
	}
	return len(c.at) > 0
}

func (c *v8Constants) addBuiltin(r Range) {
	if c.builtins.End == 0 {
		c.builtins = r
		return
	}
	c.builtins.Start, c.builtins.End = min(c.builtins.Start, r.Start), max(c.builtins.End, r.End)
}

// value reads a number.
func (c *v8Constants) value(vaddr uint64) (int, error) {
	for _, p := range c.im.Loads {
		if vaddr < p.Vaddr || vaddr-p.Vaddr >= p.Memsz || p.Memsz-(vaddr-p.Vaddr) < 4 {
			continue
		}
		if vaddr-p.Vaddr >= p.Filesz {
			return 0, nil // in .bss
		}
		b, err := c.im.Bytes(p.Off+vaddr-p.Vaddr, 4)
		if err != nil {
			return 0, err
		}
		return int(int32(le.Uint32(b))), nil
	}
	return 0, errors.New("a constant is not in the file")
}

// has returns the number with the first of these names that the file contains. A name that ends in __ may continue
// with a type, which differs between versions.
func (c *v8Constants) has(names ...string) (n int, ok bool) {
	for _, name := range names {
		for full, vaddr := range c.at {
			if full == name || strings.HasSuffix(name, "__") && strings.HasPrefix(full, name) {
				n, err := c.value(vaddr)
				return n, err == nil
			}
		}
	}
	return 0, false
}

// get returns a number that is from lo to hi: otherwise it sets c.err.
func (c *v8Constants) get(lo, hi int, names ...string) int {
	n, ok := c.has(names...)
	switch {
	case c.err != nil:
	case !ok:
		c.err = fmt.Errorf("no %s%s", v8Prefix, names[0])
	case n < lo || n > hi:
		c.err = fmt.Errorf("%s%s is %d", v8Prefix, names[0], n)
	default:
		return n
	}
	return lo
}

// off returns the offset of a field.
func (c *v8Constants) off(names ...string) uint64 {
	for i := range names {
		names[i] = "class_" + names[i] + "__"
	}
	return uint64(c.get(0, maxObject-8, names...))
}

// field returns the offset of a field for BPF.
func (c *v8Constants) field(names ...string) uint16 { return uint16(c.off(names...)) }

// frame returns the offset of a word in a frame.
func (c *v8Constants) frame(name string) int16 { return int16(c.get(-v8Frame, -8, "off_fp_"+name)) }

// typ returns a number of a type.
func (c *v8Constants) typ(name string) uint16 {
	return uint16(c.get(1, math.MaxUint16, "type_"+name+"__"))
}

// v8Frame is the size in bytes of the part of a frame that BPF reads, below the frame pointer.
//
//bpf:define v8Frame V8_FRAME
const v8Frame = 48

// v8 returns the description of a version.
func (c *v8Constants) v8() (*v8, error) {
	v := &v8{}
	for i, at := range []uint64{c.major, c.minor} {
		n, err := c.value(at)
		if err != nil {
			return nil, err
		}
		v.version[i] = n
	}
	if v.version[0] < v8First || v.version[0] > v8Last {
		return nil, fmt.Errorf("%w %d.%d", errVersion, v.version[0], v.version[1])
	}
	if c.get(0, 8, "TaggedSize") != 8 || c.get(0, 63, "SmiShiftSize") != 31 {
		return nil, errors.New("compressed pointers")
	}
	if c.builtins.End == 0 {
		c.builtins = c.code()
	}
	v.walk = v8Walk{
		BuiltinsStart: c.builtins.Start, BuiltinsEnd: c.builtins.End,
		Context: c.frame("context_or_frame_type"), Function: c.frame("function"),
		Bytecode: c.frame("bytecode_array"), Offset: c.frame("bytecode_offset"),
		Shared: c.field("JSFunction__shared"), Data: 8,
		Script: c.field("SharedFunctionInfo__script", "SharedFunctionInfo__script_or_debug_info"),
		// The number of the function's literal in the script follows the flags.
		Literal: c.field("SharedFunctionInfo__flags") + 4,
		// A Script's number follows the ends of the lines.
		ScriptID: c.field("Script__line_ends") + 8, BytecodeHeader: c.field("BytecodeArray__data"),
	}
	v.objects = v8Objects{
		instanceType: c.off("Map__instance_type"), nameOrScope: c.off("SharedFunctionInfo__name_or_scope_info"),
		firstLocal: 1 + c.get(3, 5, "scopeinfo_idx_first_vars"),
		length:     c.off("String__length"), first: c.off("ConsString__first"), second: c.off("ConsString__second"),
		actual: c.off("ThinString__actual"), parent: c.off("SlicedString__parent"),
		offset: c.off("SlicedString__offset"),
		chars:  c.off("SeqOneByteString__chars"), resource: c.off("ExternalString__resource") + 8,
		source: c.off("Script__source"), scriptName: c.off("Script__name"), lineOffset: c.off("Script__name") + 8,
		mapType: c.typ("Map"), sharedType: c.typ("SharedFunctionInfo"), scopeType: c.typ("ScopeInfo"),
		scriptType: c.typ("Script"), bytecodeType: c.typ("BytecodeArray"), codeType: c.typ("Code"),
		oneByteMask:        uint16(c.get(1, 127, "StringEncodingMask")),
		representationMask: uint16(c.get(1, 127, "StringRepresentationMask")),
		notStringMask:      uint16(c.get(-1<<15, -1, "IsNotStringMask")),
	}
	o := &v.objects
	if o.firstLocal == 6 {
		o.positions = 4
	}
	// Since 12, these objects are in the trusted space, with the fields in another order.
	o.sourcePositions, o.bytecode = 32, 16
	if v.walk.BytecodeHeader == 64 {
		o.sourcePositions, o.bytecode = 24, 8
	}
	v.bytecodes = c.bytecodes()
	v.layout = c.layout(v.version[0])
	return v, c.err
}

// layout locates the descriptions of generated code. It returns an empty layout if the file does not contain these
// numbers.
func (c *v8Constants) layout(major int) (l v8Layout) {
	start, hasStart := c.has("class_Code__instruction_start__")
	size, hasSize := c.has("class_Code__instruction_size__")
	flags, hasFlags := c.has("class_Code__flags__")
	first, _ := c.has("class_InstructionStream__instruction_start__")
	stream, _ := c.has("type_InstructionStream__")
	switch {
	case major == 11: // which does not export these three
		l = v8Layout{first: uint64(first), code: 8, start: 40, size: 56, table: 24, deopt: 16, flags: 48}
	case !hasStart || !hasSize || !hasFlags:
		return l
	case major < 11:
		l = v8Layout{first: uint64(start), size: uint64(size), table: 24, deopt: 16, flags: uint64(flags)}
		stream, _ = c.has("type_Code__")
	default:
		l = v8Layout{first: uint64(first), code: 8, start: uint64(start), size: uint64(size), table: 16, deopt: 8,
			flags: uint64(flags)}
	}
	l.kindMask = uint32(c.get(1, math.MaxInt32, "CodeKindFieldMask"))
	l.kindShift = uint32(c.get(0, 31, "CodeKindFieldShift"))
	l.baseline = uint32(c.get(0, 255, "CodeKindBaseline"))
	l.literals = c.index(2, "LiteralArray")
	l.outer = c.index(6, "SharedFunctionInfo", "WrappedSharedFunctionInfo")
	l.inlined = c.index(7, "InliningPositions")
	if ok := l.first%8 == 0 && max(l.first, l.start, l.size, l.flags) < maxObject; ok && l.first > 0 {
		l.stream = uint16(stream)
	}
	return l
}

// index returns the index of a part of the DeoptimizationData: in version 10, which does not export it, otherwise.
func (c *v8Constants) index(otherwise int, names ...string) int {
	for i := range names {
		names[i] = "DeoptimizationData" + names[i] + "Index"
	}
	if n, ok := c.has(names...); ok && n > 0 && n < maxObject/8 {
		return n
	}
	return otherwise
}

// bytecodes returns the sizes of bytecodes, nil if the file does not export them.
func (c *v8Constants) bytecodes() (s v8Bytecodes) {
	const most = 3 * 256
	if size := c.sizes.End - c.sizes.Start; size <= most && size%3 == 0 {
		s, _ = bytesAt(c.im, c.sizes.Start, size)
	}
	return s
}

// code returns the range of the file's code.
func (c *v8Constants) code() (r Range) {
	for _, p := range c.im.Loads {
		if p.Flags&elf.PF_X != 0 {
			r = Range{p.Vaddr, p.Vaddr + p.Memsz}
		}
	}
	return r
}
