package runtimes

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"reflect"
	"sort"
	"strings"
	"unicode/utf16"

	"gperf/internal/procmem"
)

// Bind implements binder. BPF passes the SharedFunctionInfo of a frame's function. Generated code describes the
// functions inlined into it, also for an ip before the frame is complete.
func (v *v8Process) Bind(mem io.ReaderAt, f nativeFrame) (Part, error) {
	if f.generated {
		if b := v.generated(v.heap(mem), f); len(b.Functions) > 0 {
			return b, nil
		}
	}
	if !f.has {
		return Part{}, nil
	}
	return Part{Functions: []Interpreted{f.passed}, Replaces: f.generated}, nil
}

// Function reads the function of a SharedFunctionInfo from a process's memory. The garbage collector may move its
// objects meanwhile: so they are read twice. The function is partial if the script moves for longer than that.
func (v *v8Process) Function(mem io.ReaderAt, f Interpreted) (*Function, error) {
	const tries = 3
	last, err := v.read(mem, f)
	same := false
	for range tries {
		if errors.Is(err, ErrChanged) {
			return nil, err
		}
		fn, e := v.read(mem, f)
		same = e == nil && err == nil && reflect.DeepEqual(fn, last)
		if last, err = fn, e; same && !fn.Partial {
			break
		}
	}
	if err == nil && !same {
		err = ErrChanged
	}
	if err != nil {
		return nil, err
	}
	return last, nil
}

// v8Shared holds the references of a SharedFunctionInfo.
type v8Shared struct {
	script, id  uint64 // the Script and its number
	literal     uint32 // the number of the function in it
	data, scope uint64 // the function's code, and its ScopeInfo or name
}

// check returns the hash that BPF makes of a function: v8_check in bpf/v8.h.
func (s *v8Shared) check() uint32 { return v8Check(s.id, s.literal) }

// shared reads a SharedFunctionInfo. The error is ErrChanged if the object is another one.
func (v *v8Process) shared(h *v8Heap, object uint64) (s v8Shared, err error) {
	if h.is(object, h.objects.sharedType) != nil {
		return s, ErrChanged
	}
	walk := &v.vm.walk
	w, err := h.words(object, 0, int(max(walk.Literal, walk.Script, uint16(h.objects.nameOrScope), walk.Data)/8)+1)
	if err != nil {
		return s, err
	}
	s = v8Shared{script: w[walk.Script/8], literal: uint32(w[walk.Literal/8] >> (8 * (walk.Literal % 8))),
		data: w[v.vm.walk.Data/8], scope: w[h.objects.nameOrScope/8]}
	if err := h.is(s.script, h.objects.scriptType); err != nil {
		return s, err
	}
	s.id, err = h.word(s.script, uint64(v.vm.walk.ScriptID))
	return s, err
}

// maxPages is how many pages are kept of the objects of a function.
const maxPages = 64

// read reads a function once.
func (v *v8Process) read(mem io.ReaderAt, f Interpreted) (*Function, error) {
	p := procmem.NewPages(mem, maxPages)
	defer p.Release()
	h := v.heap(p)
	s, err := v.shared(h, f.Code)
	if err = f.verify(s.check(), err); err != nil {
		return nil, err
	}
	name, start, err := h.scope(s.scope)
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	file, fileErr := h.scriptFile(s.script)
	fn := &Function{Name: name, File: file, Size: 2}
	code, err := h.bytecodeOf(s.data)
	if err != nil {
		return nil, fmt.Errorf("bytecode: %w", err)
	}
	positions := []v8Position{{0, start}}
	if code != 0 {
		size, err := h.word(code, 8)
		if err != nil {
			return nil, err
		}
		if n := smi(size); n > 0 && n <= maxCode {
			fn.Size = 2 * uint32(n)
		}
		positions = append(positions, h.positionsOf(code)...)
	}
	fn.Lines, err = v.scripts.lines(h, s.script, s.id, positions)
	fn.Partial = fileErr != nil || err != nil
	return fn, nil
}

// v8Check returns the hash of the numbers of a script and of a function in it.
func v8Check(script uint64, literal uint32) uint32 {
	return checkOf(0, script, uint64(literal))
}

// Flags of a ScopeInfo, the same bits in versions 10 to 13.
const (
	v8SavedVariable  = 1 << 10
	v8FunctionName   = 3 << 12
	v8InferredName   = 1 << 14
	v8MaxInlineNames = 75 // a scope with as many variables keeps the names in a table
	v8MaxVariables   = 1 << 16
)

// v8NoName is the name of a function without one.
const v8NoName = "(anonymous)"

// scope returns the name of a function and the position of its start in the script's source, -1 if it is not known.
// object is the ScopeInfo, or only the name.
func (h *v8Heap) scope(object uint64) (name string, start int32, err error) {
	if !isObject(object) {
		return v8NoName, -1, nil
	}
	t, err := h.typeOf(object)
	if err != nil {
		return "", 0, err
	}
	if h.isString(t) {
		name, err = h.name(object)
		return name, -1, err
	}
	if t != h.objects.scopeType {
		return "", 0, errObject
	}
	head, err := h.words(object, 0, h.objects.firstLocal)
	if err != nil {
		return "", 0, err
	}
	flags, variables := uint32(head[1]), smi(head[3])
	if flags == 0 { // a Smi before 13
		flags = uint32(head[1] >> 32)
	}
	if variables < 0 || variables > v8MaxVariables {
		return "", 0, errObject
	}
	at := h.objects.firstLocal + int(variables)
	if variables < v8MaxInlineNames {
		at += int(variables)
	} else {
		at++
	}
	if flags&v8SavedVariable != 0 {
		at++
	}
	rest, err := h.words(object, 8*uint64(at), 5)
	if err != nil {
		return "", 0, err
	}
	var names []uint64
	if flags&v8FunctionName != 0 {
		names, rest = append(names, rest[0]), rest[2:]
	}
	if flags&v8InferredName != 0 {
		names, rest = append(names, rest[0]), rest[1:]
	}
	start = smi(rest[0])
	if h.objects.positions != 0 {
		start = smi(head[h.objects.positions])
	}
	for _, n := range names {
		name, err := h.name(n)
		if err == nil && name != v8NoName {
			return name, start, nil
		}
	}
	return v8NoName, start, nil
}

// name reads a string that is a name.
func (h *v8Heap) name(object uint64) (string, error) {
	if !isObject(object) {
		return v8NoName, nil
	}
	s, err := h.str(object)
	if err == nil && s == "" {
		s = v8NoName
	}
	return s, err
}

// str reads the first maxName characters of a string.
func (h *v8Heap) str(object uint64) (string, error) {
	t, err := h.text(object, maxName)
	if err != nil {
		return "", err
	}
	return shown(string(utf16.Decode(t.chars))), nil
}

// scriptFile returns the name of a script: a path, without file://, a name that Node.js gives, or the name for code
// without a file. The error means that the name cannot be read now.
func (h *v8Heap) scriptFile(script uint64) (string, error) {
	name := ""
	at, err := h.word(script, h.objects.scriptName)
	if err == nil {
		name, err = h.str(at)
	}
	if errors.Is(err, errString) {
		err = nil // it has no name
	}
	if strings.HasPrefix(name, "file://") {
		if u, err := url.Parse(name); err == nil && u.Path != "" {
			name = shown(u.Path)
		}
	}
	if name == "" {
		name = "(eval)"
	}
	return name, err
}

// bytecodeOf returns the BytecodeArray of a function, 0 if there is none. data is the BytecodeArray, or compiled
// code that refers to it. The error means that an object cannot be read now, because the garbage collector may be
// moving it.
func (h *v8Heap) bytecodeOf(data uint64) (uint64, error) {
	if !isObject(data) {
		return 0, nil
	}
	t, err := h.typeOf(data)
	if err == nil && t == h.objects.codeType {
		if data, err = h.word(data, h.objects.bytecode); err == nil {
			t, err = h.typeOf(data)
		}
	}
	if err != nil || t != h.objects.bytecodeType {
		return 0, err
	}
	return data, nil
}

// v8Position is the position in the source that bytecode from an offset on is from.
type v8Position struct {
	off    uint32
	source int32
}

// maxV8Table is the maximum size in bytes of a table of positions.
const maxV8Table = 1 << 20

// positionsOf returns the positions of bytecode, nil if V8 did not keep them.
func (h *v8Heap) positionsOf(code uint64) (list []v8Position) {
	table, err := h.word(code, h.objects.sourcePositions)
	if err != nil {
		return nil
	}
	for _, e := range v8Table(h.byteArray(table)) {
		if p, ok := v8PlaceOf(e.pos); ok {
			list = append(list, v8Position{uint32(max(e.off, 0)), p.source})
		}
	}
	return list
}

// byteArray reads an array of bytes, nil if the object is none.
func (h *v8Heap) byteArray(object uint64) []byte {
	size, err := h.word(object, 8)
	if err != nil || !isSmi(size) || smi(size) <= 0 || smi(size) > maxV8Table {
		return nil
	}
	b, err := readAt(h.mem, object-v8Tag+16, int(smi(size)))
	if err != nil {
		return nil
	}
	return b
}

// v8Entry is an entry of a table of positions: see v8PlaceOf.
type v8Entry struct{ off, pos int64 }

// v8Table decodes a table of positions: for each, the steps of the offset and of the position.
func v8Table(table []byte) (list []v8Entry) {
	const entry = -1 // the offset before the first step, and of the function's entry
	e := v8Entry{off: entry}
	for len(table) > 0 {
		var step int64
		step, table = v8Signed(table)
		if step < 0 {
			step = -step - 1 // of an expression, rather than a statement
		}
		e.off += step
		step, table = v8Signed(table)
		e.pos += step
		if e.off < entry || e.off > maxCode || e.pos < 0 {
			return list
		}
		list = append(list, e)
	}
	return list
}

// v8Signed decodes a number of 7 bits in each byte, the lowest first. The number's lowest bit is the sign.
func v8Signed(b []byte) (int64, []byte) {
	var u uint64
	for shift := 0; len(b) > 0; shift += 7 {
		c := b[0]
		b = b[1:]
		if shift < 64 {
			u |= uint64(c&0x7f) << shift
		}
		if c&0x80 == 0 {
			break
		}
	}
	return int64(u>>1) ^ -int64(u&1), b
}

// v8Scripts are the ends of lines of the latest scripts.
type v8Scripts struct {
	ends map[v8Script][]int32
}

// v8Script identifies a script.
type v8Script struct{ object, source, id uint64 }

const (
	maxV8Scripts = 64
	maxV8Source  = 1 << 24 // characters
)

// lines returns the lines of positions in a script, none if it has no source. The error means that the source cannot
// be read now.
func (s *v8Scripts) lines(h *v8Heap, script, id uint64, positions []v8Position) ([]Line, error) {
	source, err := h.word(script, h.objects.source)
	if err != nil {
		return nil, err
	}
	first, err := h.word(script, h.objects.lineOffset)
	if err != nil || !isSmi(first) {
		return nil, err
	}
	key := v8Script{script, source, id}
	ends, ok := s.ends[key]
	if !ok {
		t, err := h.text(source, maxV8Source)
		if errors.Is(err, errString) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		ends = lineEnds(t.chars)
		if s.ends == nil || len(s.ends) >= maxV8Scripts {
			s.ends = map[v8Script][]int32{}
		}
		s.ends[key] = ends
	}
	l := lines{size: math.MaxUint32}
	for _, p := range positions {
		if p.source >= 0 && p.source <= maxV8Source {
			line := sort.Search(len(ends), func(i int) bool { return ends[i] >= p.source }) + 1
			l.off, l.line = 2*p.off, int64(line)+int64(smi(first))
			l.add(false)
		}
	}
	return l.list, nil
}

// lineEnds returns the positions of the characters that end lines.
func lineEnds(text []uint16) (ends []int32) {
	for i, c := range text {
		switch c {
		case '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				continue
			}
			ends = append(ends, int32(i))
		case '\n', 0x2028, 0x2029:
			ends = append(ends, int32(i))
		}
	}
	return ends
}
