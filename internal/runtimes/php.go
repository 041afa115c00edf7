package runtimes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"gperf/internal/dso"
)

// php is PHP's interpreter in a program or library, without threads.
type php struct {
	version string // 8.2
	walk    phpWalk
	eval    Range // of the native function that runs PHP functions
}

// phpWalk is where the interpreter keeps frames and functions: offsets in a function (zend_function), in bytes. The
// other objects are the same in all versions.
//
//bpf:struct php
type phpWalk struct {
	Head                     uint64 // address of the pointer to the current frame
	FunctionSize             uint16 // the part of a function that is read, and in it:
	Count, Code, File, Lines uint16 // Lines: the first and the last one
	_                        [3]uint16
}

// phpVersion is a version by the number of the module interface, with offsets in struct _zend_op_array
// (Zend/zend_compile.h).
type phpVersion struct {
	version string
	walk    phpWalk
}

var phpVersions = map[string]phpVersion{
	"20200930": {"8.0", phpWalk{Count: 68, Code: 72, File: 144, Lines: 152}},
	"20210902": {"8.1", phpWalk{Count: 68, Code: 72, File: 144, Lines: 152}},
	"20220829": {"8.2", phpWalk{Count: 80, Code: 88, File: 152, Lines: 160}},
	"20230831": {"8.3", phpWalk{Count: 80, Code: 88, File: 152, Lines: 160}},
	"20240924": {"8.4", phpWalk{Count: 96, Code: 104, File: 168, Lines: 176}},
}

// Offsets that are the same in all versions, in bytes.
const (
	phpCurrent   = 488 // in executor_globals: the pointer to the current frame
	phpType      = 0   // in a function
	phpName      = 8
	phpScope     = 16 // a class
	phpClassName = 8  // in a class
	phpHash      = 8  // in a string
	phpLength    = 16
	phpText      = 24
	phpInstr     = 32 // size of an instruction
	phpLine      = 24 // in an instruction

	phpInternal = 1 // phpType: a function of C
)

// findPHP returns the interpreter in a file, or nil if the file contains none.
func findPHP(im *dso.Image) (Runtime, error) {
	p := &php{}
	var globals uint64
	for name, s := range definedSymbols(im, ".dynsym") { // extensions need them
		switch name {
		case "executor_globals":
			globals = s.Value
		case "execute_ex":
			p.eval = Range{s.Value, s.Value + s.Size}
		}
	}
	if p.eval.Start == 0 {
		return nil, nil
	}
	number, threads := phpInterface(im)
	v, ok := phpVersions[number]
	switch {
	case threads: // the globals are data of each thread
		return nil, errors.New("a build with threads (ZTS)")
	case !ok || globals == 0:
		return nil, fmt.Errorf("%w: module interface %q", errVersion, number)
	}
	p.version, p.walk = v.version, v.walk
	p.walk.Head, p.walk.FunctionSize = globals+phpCurrent, v.walk.Lines+8
	return p, nil
}

// phpInterface returns the number of the module interface: the read-only data contain it as API20220829,NTS.
func phpInterface(im *dso.Image) (number string, threads bool) {
	const digits = 8
	for b := readOnly(im); ; {
		i := bytes.Index(b, []byte("API2"))
		if i < 0 || len(b) < i+len("API")+digits+len(",NTS") {
			return "", false
		}
		b = b[i+len("API"):]
		number = string(b[:digits])
		if _, err := strconv.ParseUint(number, 10, 32); err != nil {
			continue
		}
		switch rest := b[digits:]; {
		case bytes.HasPrefix(rest, []byte(",NTS")):
			return number, false
		case bytes.HasPrefix(rest, []byte(",TS")):
			return number, true
		}
	}
}

// String implements Runtime.
func (p *php) String() string { return "PHP " + p.version }

// DSO implements Runtime.
func (p *php) DSO() string { return dso.PHPName }

// Walk implements Runtime.
func (p *php) Walk(bias uint64) Walk {
	w := p.walk
	w.Head += bias
	return newWalk(kindPHP, &w)
}

// In implements Runtime.
func (p *php) In(bias uint64) Process {
	return frameList{code: p, bias: bias, runs: ranges{p.eval}, resumed: true}
}

// Function implements Process.
func (p *php) Function(mem io.ReaderAt, frame Interpreted) (*Function, error) {
	w, r := &p.walk, &reader{mem: mem}
	b := r.bytes(frame.Code, int(w.FunctionSize))
	if r.err != nil {
		return nil, r.err
	}
	if err := frame.verify(p.check(mem, b)); err != nil {
		return nil, err
	}
	f := &Function{Name: phpFunctionName(r, le.Uint64(b[phpName:]), le.Uint64(b[phpScope:])), Size: 2}
	if b[phpType] == phpInternal {
		return f, r.err
	}
	f.File = phpString(r, le.Uint64(b[w.File:]))
	count := le.Uint32(b[w.Count:])
	if count == 0 || count > maxCode/phpInstr {
		return nil, fmt.Errorf("%d instructions", count)
	}
	f.Size = count * phpInstr
	f.Lines = phpLines(r.bytes(le.Uint64(b[w.Code:]), int(f.Size)))
	return f, r.err
}

// check returns the hash that BPF makes of a function: php_function in bpf/php.h.
func (p *php) check(mem io.ReaderAt, function []byte) (uint32, error) {
	w, r := &p.walk, &reader{mem: mem}
	name := le.Uint64(function[phpName:])
	h := mix(0, name)
	var texts uint64
	if name != 0 {
		texts = r.word(name + phpHash)
	}
	if function[phpType] == phpInternal {
		return checkOf(h, texts), r.err
	}
	file := le.Uint64(function[w.File:])
	h = mix(h, le.Uint64(function[w.Code:]), file, le.Uint64(function[w.Lines:]), uint64(le.Uint32(function[w.Count:])))
	if file != 0 {
		texts = r.textHash(texts, file+phpText, r.word(file+phpLength))
	}
	return checkOf(h, texts), r.err
}

// phpLines returns the lines of instructions.
func phpLines(instrs []byte) []Line {
	l := lines{size: uint32(len(instrs))}
	for ; len(instrs) >= phpInstr; instrs = instrs[phpInstr:] {
		l.line = int64(le.Uint32(instrs[phpLine:]))
		l.add(false)
		l.off += phpInstr
	}
	return l.list
}

// phpFunctionName returns the name of a function in the form of PHP's own traces.
func phpFunctionName(r *reader, name, class uint64) string {
	if name == 0 {
		return "{main}" // the code of a file
	}
	text := phpString(r, name)
	if class == 0 {
		return text
	}
	return shown(phpString(r, r.word(class+phpClassName)) + "::" + text)
}

// phpString reads a string, up to the length that is shown.
func phpString(r *reader, addr uint64) string {
	n := r.word(addr + phpLength)
	if n > 1<<30 {
		r.fail(fmt.Errorf("a string of %d bytes", n))
		return ""
	}
	return shown(string(r.bytes(addr+phpText, int(min(n, maxName+8)))))
}
