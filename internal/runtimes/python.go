package runtimes

import (
	"fmt"

	"gperf/internal/dso"
)

// python is CPython's interpreter in a program or library.
type python struct {
	version [2]int // 3, 12
	// walk is where it keeps frames. Head is a vaddr.
	walk pythonWalk
	// eval are the vaddrs of the native function that runs Python functions, including the rarely executed part.
	eval ranges
	// enter are the vaddrs of the function's begin, which adds the frame of the Python function to the list.
	enter Range

	objects pythonObjects
}

// pythonWalk is where an interpreter keeps the frames of Python functions: offsets in the interpreter's objects, in
// bytes.
//
//bpf:struct python
type pythonWalk struct {
	Head                                           uint64 // address of the pointer to the newest interpreter's state
	Threads, NextInterpreter                       uint32 // in an interpreter's state
	NextThread, ThreadID, Status, Top              uint16 // in a thread's state; Top: the frame, or
	TopFrame                                       uint16 // in the object that Top points to
	ThreadSize                                     uint16
	Back, Code, Instr, Owner, CopyIndex, FrameSize uint16 // in a frame
	CodeAt, CodeSize                               uint16 // the part of a code object that is read, and in it:
	FirstLine, File, Name, Lines                   uint16
	Instrs, Copies                                 uint16 // in a code object
	StringHash, StringData                         uint16 // in a string; the length is before the hash
	Entry, InstrBits, InstrUnit                    uint8
	_                                              uint8
}

// noField is the offset of a field that a version lacks.
//
//bpf:define noField NO_FIELD
const noField = 1<<16 - 1

// Values of pythonWalk.Entry: which frames a native call of the interpreter's function begins with.
const (
	entryEach = iota + 1
	entryFlag
	entryShim
)

// pythonObjects are offsets that are only needed to read names.
type pythonObjects struct {
	qualname   uint64 // in a code object; 0: none
	bytecode   uint64 // in a code object: pointer to the code's bytes before 3.11; 0: they follow
	codeUnits  uint64 // in a code object: number of instructions
	bytesSize  uint64 // in a bytes object
	bytesData  uint64
	length     uint64 // in a string
	state      uint64
	stateShift uint   // to the kind, in state
	ascii      uint64 // to the characters of an ASCII string
	compact    uint64 // to the characters of a string that is not ASCII
	lines      lineFormat
}

// String implements Runtime.
func (p *python) String() string { return fmt.Sprintf("CPython %d.%d", p.version[0], p.version[1]) }

// DSO implements Runtime.
func (p *python) DSO() string { return dso.PythonName }

// Walk implements Runtime.
func (p *python) Walk(bias uint64) Walk {
	w := p.walk
	w.Head += bias
	return newWalk(kindPython, &w)
}

// In implements Runtime.
func (p *python) In(bias uint64) Process {
	return frameList{code: p, bias: bias, runs: p.eval, enter: &p.enter}
}

// findPython returns the interpreter in a file, or nil if the file contains none.
func findPython(im *dso.Image) (Runtime, error) {
	s := pythonSymbols(im)
	if len(s.eval) == 0 {
		return nil, nil
	}
	version, err := s.version(im)
	p := &python{version: version, eval: s.eval, enter: s.enter}
	if err == nil {
		err = p.layout(im, s.runtime)
	}
	return p, err
}

// pythonAddrs are the addresses of symbols.
type pythonAddrs struct {
	runtime, versionAt   uint64
	has38, has39, has310 bool
	eval                 ranges
	enter                Range
}

// evalName is the function that runs Python functions.
const evalName = "_PyEval_EvalFrameDefault"

// enterSize is the size of the function's begin, in bytes: the largest of 3.8 to 3.14.
const enterSize = 256

// pythonSymbols finds the symbols of an interpreter. Stripped programs contain these symbols, too, because
// extension modules need them. Only the symbol of the rarely executed part of the function may be missing.
func pythonSymbols(im *dso.Image) (p pythonAddrs) {
	for name, s := range definedSymbols(im, ".dynsym", ".symtab") {
		switch name {
		case "_PyRuntime":
			p.runtime = s.Value
		case "Py_Version":
			p.versionAt = s.Value
		case "PyIter_Send":
			p.has310 = true
		case "PyFrame_GetCode":
			p.has39 = true
		case "PyCode_NewWithPosOnlyArgs":
			p.has38 = true
		case evalName, evalName + ".cold", evalName + ".cold.0", evalName + ".part.0":
			p.eval.add(s)
			if name == evalName {
				p.enter = Range{s.Value, s.Value + enterSize}
			}
		}
	}
	return p
}

// version returns the version: files of 3.11 and later contain it; earlier ones are recognized by the functions
// that each version added.
func (p *pythonAddrs) version(im *dso.Image) ([2]int, error) {
	old := fmt.Errorf("%w before 3.8", errVersion)
	if p.runtime == 0 { // before 3.7
		return [2]int{}, old
	}
	if p.versionAt != 0 {
		b, err := bytesAt(im, p.versionAt, 4)
		if err != nil {
			return [2]int{}, err
		}
		v := le.Uint32(b)
		return [2]int{int(v >> 24), int(v >> 16 & 0xff)}, nil
	}
	switch {
	case p.has310:
		return [2]int{3, 10}, nil
	case p.has39:
		return [2]int{3, 9}, nil
	case p.has38:
		return [2]int{3, 8}, nil
	}
	return [2]int{}, old
}

// layout sets the offsets of the interpreter whose _PyRuntime is at a vaddr.
func (p *python) layout(im *dso.Image, runtime uint64) error {
	switch v := p.version; {
	case v[0] != 3 || v[1] > 14:
		return fmt.Errorf("%w %d.%d", errVersion, v[0], v[1])
	case v[1] < 13:
		t, ok := pythonLayouts[v[1]]
		if !ok {
			return fmt.Errorf("%w %d.%d", errVersion, v[0], v[1])
		}
		p.walk, p.objects = t.walk, t.objects
	default:
		b, err := bytesAt(im, runtime, debugOffsetsSize)
		if err != nil {
			return err
		}
		if p.walk, p.objects, err = debugOffsets(b, v); err != nil {
			return err
		}
	}
	p.walk.Head += runtime
	return nil
}

// pythonLayout is the layout of a version without _Py_DebugOffsets.
type pythonLayout struct {
	walk    pythonWalk
	objects pythonObjects
}

// pythonLayouts are the layouts of 3.8 to 3.12, by the minor version. They are the same on all 64-bit machines.
var pythonLayouts = map[int]pythonLayout{
	8:  {frames38, objects38},
	9:  {frames38, objects38},
	10: {frames310(), objects310()},
	11: {pythonWalk{Head: 40, Threads: 16, NextThread: 8, ThreadID: 152, Status: noField, Top: 56, TopFrame: 8,
		ThreadSize: 168, Back: 48, Code: 32, Instr: 56, Owner: 68, CopyIndex: noField, FrameSize: 72,
		CodeAt: 72, CodeSize: 72, FirstLine: 0, File: 40, Name: 48, Lines: 64, Instrs: 184, StringHash: 24,
		StringData: 48, Entry: entryFlag, InstrBits: 64, InstrUnit: 1},
		pythonObjects{qualname: 128, codeUnits: 16, bytesSize: 16, bytesData: 32, length: 16, state: 32,
			stateShift: 2, ascii: 48, compact: 72, lines: locationTable}},
	12: {pythonWalk{Head: 40, Threads: 72, NextThread: 8, ThreadID: 136, Status: 24, Top: 56, TopFrame: 0,
		ThreadSize: 152, Back: 8, Code: 0, Instr: 56, Owner: 70, CopyIndex: noField, FrameSize: 72,
		CodeAt: 64, CodeSize: 80, FirstLine: 4, File: 48, Name: 56, Lines: 72, Instrs: 192, StringHash: 24,
		StringData: 40, Entry: entryShim, InstrBits: 64, InstrUnit: 1},
		pythonObjects{qualname: 128, codeUnits: 16, bytesSize: 16, bytesData: 32, length: 16, state: 32,
			stateShift: 2, ascii: 40, compact: 56, lines: locationTable}},
}

// frames38 are the frames of 3.8 and 3.9.
var frames38 = pythonWalk{Head: 32, Threads: 8, NextThread: 8, ThreadID: 176, Status: noField, Top: 24,
	TopFrame: noField, ThreadSize: 184, Back: 24, Code: 32, Instr: 104, CopyIndex: noField, FrameSize: 112,
	CodeAt: 40, CodeSize: 88, FirstLine: 0, File: 64, Name: 72, Lines: 80, StringHash: 24,
	StringData: 48, Entry: entryEach, InstrBits: 32, InstrUnit: 1}

// objects38 are the other objects of 3.8 and 3.9.
var objects38 = pythonObjects{bytecode: 48, bytesSize: 16, bytesData: 32, length: 16, state: 32, stateShift: 2,
	ascii: 48, compact: 72, lines: numberTable}

// frames310 returns the frames of 3.10, whose offsets of instructions are in units of two bytes.
func frames310() pythonWalk {
	w := frames38
	w.Instr, w.FrameSize, w.InstrUnit = 96, 104, 2
	return w
}

func objects310() pythonObjects {
	o := objects38
	o.lines = lineTable
	return o
}
