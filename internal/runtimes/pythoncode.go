package runtimes

import (
	"fmt"
	"io"
)

// Function reads the function of a code object from a process's memory.
func (p *python) Function(mem io.ReaderAt, frame Interpreted) (*Function, error) {
	w := &p.walk
	b, err := readAt(mem, frame.Code+uint64(w.CodeAt), int(w.CodeSize))
	if err != nil {
		return nil, err
	}
	if err = frame.verify(p.check(mem, b)); err != nil {
		return nil, err
	}
	name, file, lines := le.Uint64(b[w.Name:]), le.Uint64(b[w.File:]), le.Uint64(b[w.Lines:])
	first := le.Uint32(b[w.FirstLine:])
	f := &Function{}
	if f.Name, err = p.objects.name(mem, frame.Code, name); err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	if f.File, err = p.objects.str(mem, file); err != nil {
		return nil, fmt.Errorf("file name: %w", err)
	}
	if f.Size, err = p.objects.size(mem, frame.Code); err != nil {
		return nil, err
	}
	table, err := p.objects.bytes(mem, lines, maxCode)
	if err != nil {
		return nil, fmt.Errorf("lines: %w", err)
	}
	f.Lines = p.objects.lines.decode(table, int32(first), f.Size)
	return f, nil
}

// check returns the hash that BPF makes of a part of a code object: python_check in bpf/python.h.
func (p *python) check(mem io.ReaderAt, code []byte) (uint32, error) {
	w := &p.walk
	name, file := le.Uint64(code[w.Name:]), le.Uint64(code[w.File:])
	h := mix(uint64(le.Uint32(code[w.FirstLine:])), file, le.Uint64(code[w.Lines:]), name)
	texts, err := readWord(mem, name+uint64(w.StringHash))
	if err != nil {
		return 0, err
	}
	n, err := readWord(mem, file+uint64(w.StringHash)-8)
	if err != nil {
		return 0, err
	}
	if texts, err = textHash(mem, texts, file+uint64(w.StringData), n); err != nil {
		return 0, err
	}
	return checkOf(h, texts), nil
}

// name returns the qualified name of a code object, or the plain name before 3.11.
func (o *pythonObjects) name(mem io.ReaderAt, code, name uint64) (string, error) {
	if o.qualname != 0 {
		var err error
		if name, err = readWord(mem, code+o.qualname); err != nil {
			return "", err
		}
	}
	return o.str(mem, name)
}

// size returns the size of the bytecode of a code object, in bytes.
func (o *pythonObjects) size(mem io.ReaderAt, code uint64) (uint32, error) {
	at, unit := code+o.codeUnits, uint64(2)
	if o.bytecode != 0 {
		b, err := readWord(mem, code+o.bytecode)
		if err != nil {
			return 0, err
		}
		at, unit = b+o.bytesSize, 1
	}
	n, err := readWord(mem, at)
	if err != nil {
		return 0, err
	}
	if n == 0 || n > maxCode {
		return 0, fmt.Errorf("code of %d bytes", n)
	}
	return uint32(n * unit), nil
}

// bytes reads a bytes object of at most limit bytes.
func (o *pythonObjects) bytes(mem io.ReaderAt, addr uint64, limit uint64) ([]byte, error) {
	n, err := readWord(mem, addr+o.bytesSize)
	if err != nil {
		return nil, err
	}
	switch {
	case n > limit:
		return nil, fmt.Errorf("%d bytes", n)
	case n == 0:
		return nil, nil
	}
	return readAt(mem, addr+o.bytesData, int(n))
}

// str reads a string, the first maxName characters of it.
func (o *pythonObjects) str(mem io.ReaderAt, addr uint64) (string, error) {
	head, err := readAt(mem, addr, int(max(o.length, o.state)+8))
	if err != nil {
		return "", err
	}
	n, state := le.Uint64(head[o.length:]), le.Uint32(head[o.state:])>>o.stateShift
	width, compact, ascii := int(state&7), state>>3&1 != 0, state>>4&1 != 0
	if !compact || n > 1<<40 || width != 1 && width != 2 && width != 4 {
		return "", errString
	}
	n = min(n, maxName)
	if n == 0 {
		return "", nil
	}
	at := addr + o.compact
	if ascii {
		at = addr + o.ascii
	}
	b, err := readAt(mem, at, int(n)*width)
	if err != nil {
		return "", err
	}
	return shown(decode(b, width)), nil
}
