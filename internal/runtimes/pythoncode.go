package runtimes

import (
	"fmt"
	"io"
)

// Function reads the function of a code object from a process's memory.
func (p *python) Function(mem io.ReaderAt, frame Interpreted) (*Function, error) {
	w, r := &p.walk, &reader{mem: mem}
	b := r.bytes(frame.Code+uint64(w.CodeAt), int(w.CodeSize))
	if r.err != nil {
		return nil, r.err
	}
	o, name := &p.objects, le.Uint64(b[w.Name:])
	if o.qualname != 0 { // from 3.11 on
		name = r.word(frame.Code + o.qualname)
	}
	r.fetch(name, le.Uint64(b[w.Name:]), le.Uint64(b[w.File:]), le.Uint64(b[w.Lines:]))
	if err := frame.verify(p.check(mem, b)); err != nil {
		return nil, err
	}
	f := &Function{Name: o.str(r, name), File: o.str(r, le.Uint64(b[w.File:])), Size: o.size(r, frame.Code)}
	table := o.bytes(r, le.Uint64(b[w.Lines:]), maxCode)
	f.Lines = o.lines.decode(table, int32(le.Uint32(b[w.FirstLine:])), f.Size)
	return f, r.err
}

// check returns the hash that BPF makes of a part of a code object: python_check in bpf/python.h.
func (p *python) check(mem io.ReaderAt, code []byte) (uint32, error) {
	w, r := &p.walk, &reader{mem: mem}
	name, file := le.Uint64(code[w.Name:]), le.Uint64(code[w.File:])
	h := mix(uint64(le.Uint32(code[w.FirstLine:])), file, le.Uint64(code[w.Lines:]), name)
	hash, n := r.word(name+uint64(w.StringHash)), r.word(file+uint64(w.StringHash)-8)
	return checkOf(h, r.textHash(hash, file+uint64(w.StringData), n)), r.err
}

// size returns the size of the bytecode of a code object, in bytes.
func (o *pythonObjects) size(r *reader, code uint64) uint32 {
	at, unit := code+o.codeUnits, uint64(2)
	if o.bytecode != 0 {
		at, unit = r.word(code+o.bytecode)+o.bytesSize, 1
	}
	n := r.word(at)
	if n == 0 || n > maxCode {
		r.fail(fmt.Errorf("code of %d bytes", n))
		return 0
	}
	return uint32(n * unit)
}

// bytes reads a bytes object of at most limit bytes.
func (o *pythonObjects) bytes(r *reader, addr uint64, limit uint64) []byte {
	n := r.word(addr + o.bytesSize)
	switch {
	case n > limit:
		r.fail(fmt.Errorf("%d bytes", n))
		return nil
	case n == 0:
		return nil
	}
	return r.bytes(addr+o.bytesData, int(n))
}

// str reads a string, the first maxName characters of it.
func (o *pythonObjects) str(r *reader, addr uint64) string {
	head := r.bytes(addr, int(max(o.length, o.state)+8))
	n, state := le.Uint64(head[o.length:]), le.Uint32(head[o.state:])>>o.stateShift
	width, compact, ascii := int(state&7), state>>3&1 != 0, state>>4&1 != 0
	if !compact || n > 1<<40 || width != 1 && width != 2 && width != 4 {
		r.fail(errString)
		return ""
	}
	n = min(n, maxName)
	if n == 0 {
		return ""
	}
	at := addr + o.compact
	if ascii {
		at = addr + o.ascii
	}
	return shown(decode(r.bytes(at, int(n)*width), width))
}
