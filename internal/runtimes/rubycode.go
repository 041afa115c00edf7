package runtimes

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path"
	"strings"
)

// Offsets in objects, in bytes (vm_core.h; include/ruby/internal/core).
const (
	iseqBody = 16 // in rb_iseq_t

	bodySize       = 4 // in rb_iseq_constant_body: the number of words of the code
	bodyCode       = 8
	bodyPath       = 64
	bodyLabel      = 80
	bodyFirst      = 88
	bodyBytes      = 160 // bytes that contain all fields
	infoBody       = 0   // in iseq_insn_info
	infoPositions  = 8
	infoCount      = 16
	infoSuccinct   = 24
	objectFlags    = 0
	stringLen      = 16
	stringData     = 24 // or the address of it
	shortString    = 16 // data in a string whose flags contain the length
	arrayFirst     = 16 // in an array with embedded elements
	objectSize     = 40
	typeMask       = 0x1f
	typeString     = 5
	typeArray      = 7
	notEmbedded    = 1 << 13 // of a string
	arrayEmbedded  = 1 << 13
	shortLenShift  = 14
	shortLenMask   = 0x1f
	wordSize       = 8
	maxInstruction = maxCode / wordSize
)

// Function reads the function of an instruction sequence from a process's memory.
func (r *ruby) Function(mem io.ReaderAt, frame Interpreted) (*Function, error) {
	b, err := readAt(mem, frame.Code+iseqBody, wordSize)
	if err != nil {
		return nil, err
	}
	if b, err = readAt(mem, le.Uint64(b), bodyBytes); err != nil {
		return nil, err
	}
	if err = frame.verify(r.check(mem, b)); err != nil {
		return nil, err
	}
	f := &Function{}
	if f.Name, err = r.str(mem, le.Uint64(b[bodyLabel:])); err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	if f.File, err = r.path(mem, le.Uint64(b[bodyPath:])); err != nil {
		return nil, fmt.Errorf("file name: %w", err)
	}
	n := le.Uint32(b[bodySize:])
	if n == 0 || n > maxInstruction {
		return nil, fmt.Errorf("code of %d words", n)
	}
	f.Size = n * wordSize
	if f.Lines, err = r.lines(mem, b[r.layout.lines:], n); err != nil {
		return nil, fmt.Errorf("lines: %w", err)
	}
	return f, nil
}

// check returns the hash that BPF makes of the start of a function's body, and of the function's label and file
// name: ruby_code in bpf/ruby.h.
func (r *ruby) check(mem io.ReaderAt, body []byte) (uint32, error) {
	name, label := le.Uint64(body[bodyPath:]), le.Uint64(body[bodyLabel:])
	h := mix(le.Uint64(body), le.Uint64(body[bodyCode:]), name, label, le.Uint64(body[bodyFirst:]))
	if b, flags, err := r.object(mem, name, typeArray); err == nil && flags&arrayEmbedded != 0 {
		name = le.Uint64(b[arrayFirst:])
	}
	var texts uint64
	for _, s := range []uint64{label, name} {
		at, n, err := r.text(mem, s)
		if err != nil {
			return 0, err
		}
		if texts, err = textHash(mem, texts, at, n); err != nil {
			return 0, err
		}
	}
	return checkOf(h, texts), nil
}

// object reads the start of an object of a type.
func (r *ruby) object(mem io.ReaderAt, addr uint64, typ uint64) (b []byte, flags uint64, err error) {
	if b, err = readAt(mem, addr, objectSize); err != nil {
		return nil, 0, err
	}
	flags = le.Uint64(b[objectFlags:])
	if flags&typeMask != typ {
		return nil, 0, fmt.Errorf("an object of type %d", flags&typeMask)
	}
	return b, flags, nil
}

// text returns the address of a string's text, and the number of bytes.
func (r *ruby) text(mem io.ReaderAt, addr uint64) (at, n uint64, err error) {
	b, flags, err := r.object(mem, addr, typeString)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case flags&notEmbedded != 0:
		return le.Uint64(b[stringData:]), le.Uint64(b[stringLen:]), nil
	case r.layout.shortLen:
		return addr + shortString, flags >> shortLenShift & shortLenMask, nil
	}
	return addr + stringData, le.Uint64(b[stringLen:]), nil
}

// str reads a string, the first maxName bytes of it.
func (r *ruby) str(mem io.ReaderAt, addr uint64) (string, error) {
	at, n, err := r.text(mem, addr)
	if err != nil {
		return "", err
	}
	if n > 1<<40 {
		return "", errString
	}
	if n = min(n, maxName); n == 0 {
		return "", nil
	}
	text, err := readAt(mem, at, int(n))
	if err != nil {
		return "", err
	}
	return shown(strings.ToValidUTF8(string(text), "?")), nil
}

// path reads the name of a file. addr is a string, the name that the program uses, or an array of this name and the
// absolute name, which is missing for code that a program made itself.
func (r *ruby) path(mem io.ReaderAt, addr uint64) (string, error) {
	b, flags, err := r.object(mem, addr, typeArray)
	if err != nil {
		return r.str(mem, addr)
	}
	if flags&arrayEmbedded == 0 {
		return "", errors.New("an array of another size")
	}
	name, err := r.str(mem, le.Uint64(b[arrayFirst:]))
	if err != nil || path.IsAbs(name) {
		return name, err
	}
	if real, err := r.str(mem, le.Uint64(b[arrayFirst+wordSize:])); err == nil && real != "" {
		return real, nil
	}
	return name, nil
}

// lines reads the lines of a function with n words of code. info is its iseq_insn_info.
func (r *ruby) lines(mem io.ReaderAt, info []byte, n uint32) ([]Line, error) {
	count := le.Uint32(info[infoCount:])
	if count == 0 {
		return nil, nil
	}
	if count > n {
		return nil, fmt.Errorf("%d for %d words of code", count, n)
	}
	size := int(r.layout.lineSize)
	entries, err := readAt(mem, le.Uint64(info[infoBody:]), int(count)*size)
	if err != nil {
		return nil, err
	}
	positions, err := r.positions(mem, info, count, n)
	if err != nil {
		return nil, err
	}
	l := lines{size: n * wordSize}
	for i, p := range positions {
		l.off, l.line = p*wordSize, int64(int32(le.Uint32(entries[i*size:])))
		l.add(false)
	}
	return l.list, nil
}

// positions returns the words at which the entries of a table of lines begin, in ascending order: at most count.
func (r *ruby) positions(mem io.ReaderAt, info []byte, count, n uint32) ([]uint32, error) {
	if count == 1 {
		return []uint32{0}, nil
	}
	at := le.Uint64(info[infoPositions:])
	if at == 0 {
		return readSuccinct(mem, le.Uint64(info[infoSuccinct:]), count, n)
	}
	b, err := readAt(mem, at, int(count)*4) // the function is not complete yet
	if err != nil {
		return nil, err
	}
	var list []uint32
	for ; len(b) > 0; b = b[4:] {
		p := le.Uint32(b)
		if p >= n || len(list) > 0 && p <= list[len(list)-1] {
			return nil, errors.New("positions are not in order")
		}
		list = append(list, p)
	}
	return list, nil
}

// A succinct table (succ_index_table in iseq.c) marks each word at which an entry begins with a bit. For the first
// words the table contains the number of bits up to each, seven bits each; for later words, blocks with a count,
// counts and bits.
const (
	directWords  = 54
	directInWord = 9
	directBits   = 7
	blockWords   = 512
	blockSize    = 80
	blockBits    = 16 // offset of the bits in a block
)

// readSuccinct reads the positions in a table for n words of code.
func readSuccinct(mem io.ReaderAt, at uint64, count, n uint32) ([]uint32, error) {
	direct, blocks := min(n+8, directWords)/directInWord, uint32(0)
	if n >= directWords {
		blocks = (n - directWords + blockWords - 1) / blockWords
	}
	b, err := readAt(mem, at, int(direct*wordSize+blocks*blockSize))
	if err != nil {
		return nil, err
	}
	var list []uint32
	before := uint64(0)
	for i := range direct * directInWord {
		rank := le.Uint64(b[i/directInWord*wordSize:]) >> (i % directInWord * directBits) & (1<<directBits - 1)
		if rank > before && i < n {
			list = append(list, i)
		}
		before = rank
	}
	for i := range blocks {
		block := b[direct*wordSize+i*blockSize:]
		for j := range uint32(blockWords / 64) {
			set := le.Uint64(block[blockBits+j*wordSize:])
			for ; set != 0; set &= set - 1 {
				if p := directWords + i*blockWords + j*64 + uint32(bits.TrailingZeros64(set)); p < n {
					list = append(list, p)
				}
			}
		}
	}
	return list[:min(len(list), int(count))], nil
}
