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
	m := &reader{mem: mem}
	b := m.bytes(m.word(frame.Code+iseqBody), bodyBytes)
	if m.err != nil {
		return nil, m.err
	}
	if err := frame.verify(r.check(mem, b)); err != nil {
		return nil, err
	}
	n := le.Uint32(b[bodySize:])
	if n == 0 || n > maxInstruction {
		return nil, fmt.Errorf("code of %d words", n)
	}
	f := &Function{Name: r.str(m, le.Uint64(b[bodyLabel:])), File: r.path(m, le.Uint64(b[bodyPath:])),
		Size: n * wordSize, Lines: r.lines(m, b[r.layout.lines:], n)}
	return f, m.err
}

// check returns the hash that BPF makes of the start of a function's body, and of the function's label and file
// name: ruby_code in bpf/ruby.h.
func (r *ruby) check(mem io.ReaderAt, body []byte) (uint32, error) {
	name, label := le.Uint64(body[bodyPath:]), le.Uint64(body[bodyLabel:])
	h := mix(le.Uint64(body), le.Uint64(body[bodyCode:]), name, label, le.Uint64(body[bodyFirst:]))
	if b, flags := (&reader{mem: mem}).rubyObject(name, typeArray); flags&arrayEmbedded != 0 {
		name = le.Uint64(b[arrayFirst:])
	}
	m, texts := &reader{mem: mem}, uint64(0)
	for _, s := range []uint64{label, name} {
		at, n := r.text(m, s)
		texts = m.textHash(texts, at, n)
	}
	return checkOf(h, texts), m.err
}

// rubyObject reads the start of an object of a type.
func (r *reader) rubyObject(addr uint64, typ uint64) (b []byte, flags uint64) {
	b = r.bytes(addr, objectSize)
	flags = le.Uint64(b[objectFlags:])
	if flags&typeMask != typ {
		r.fail(fmt.Errorf("an object of type %d", flags&typeMask))
		return make([]byte, objectSize), 0
	}
	return b, flags
}

// text returns the address of a string's text, and the number of bytes.
func (r *ruby) text(m *reader, addr uint64) (at, n uint64) {
	b, flags := m.rubyObject(addr, typeString)
	switch {
	case flags&notEmbedded != 0:
		return le.Uint64(b[stringData:]), le.Uint64(b[stringLen:])
	case r.layout.shortLen:
		return addr + shortString, flags >> shortLenShift & shortLenMask
	}
	return addr + stringData, le.Uint64(b[stringLen:])
}

// str reads a string, the first maxName bytes of it.
func (r *ruby) str(m *reader, addr uint64) string {
	at, n := r.text(m, addr)
	if n > 1<<40 {
		m.fail(errString)
		return ""
	}
	if n = min(n, maxName); n == 0 {
		return ""
	}
	return shown(strings.ToValidUTF8(string(m.bytes(at, int(n))), "?"))
}

// path reads the name of a file. addr is a string, the name that the program uses, or an array of this name and the
// absolute name, which is missing for code that a program made itself.
func (r *ruby) path(m *reader, addr uint64) string {
	array := reader{mem: m.mem}
	b, flags := array.rubyObject(addr, typeArray)
	switch {
	case array.err != nil:
		return r.str(m, addr)
	case flags&arrayEmbedded == 0:
		m.fail(errors.New("an array of another size"))
		return ""
	}
	name := r.str(m, le.Uint64(b[arrayFirst:]))
	if path.IsAbs(name) {
		return name
	}
	if real := r.str(&array, le.Uint64(b[arrayFirst+wordSize:])); array.err == nil && real != "" {
		return real
	}
	return name
}

// lines reads the lines of a function with n words of code. info is its iseq_insn_info.
func (r *ruby) lines(m *reader, info []byte, n uint32) []Line {
	count := le.Uint32(info[infoCount:])
	if count > n {
		m.fail(fmt.Errorf("%d lines for %d words of code", count, n))
		return nil
	}
	if count == 0 {
		return nil
	}
	size := int(r.layout.lineSize)
	entries := m.bytes(le.Uint64(info[infoBody:]), int(count)*size)
	l := lines{size: n * wordSize}
	for i, p := range m.rubyPositions(info, count, n) {
		l.off, l.line = p*wordSize, int64(int32(le.Uint32(entries[i*size:])))
		l.add(false)
	}
	return l.list
}

// rubyPositions returns the words at which the entries of a table of lines begin, in ascending order: at most count.
func (r *reader) rubyPositions(info []byte, count, n uint32) (list []uint32) {
	switch at := le.Uint64(info[infoPositions:]); {
	case count <= 1:
		return make([]uint32, count)
	case at == 0:
		return r.rubySuccinct(le.Uint64(info[infoSuccinct:]), count, n)
	default:
		for b := r.bytes(at, int(count)*4); len(b) > 0; b = b[4:] { // the function is not complete yet
			p := le.Uint32(b)
			if p >= n || len(list) > 0 && p <= list[len(list)-1] {
				r.fail(errors.New("positions are not in order"))
				return nil
			}
			list = append(list, p)
		}
		return list
	}
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

// rubySuccinct reads the positions in a table for n words of code.
func (r *reader) rubySuccinct(at uint64, count, n uint32) (list []uint32) {
	direct, blocks := min(n+8, directWords)/directInWord, uint32(0)
	if n >= directWords {
		blocks = (n - directWords + blockWords - 1) / blockWords
	}
	b := r.bytes(at, int(direct*wordSize+blocks*blockSize))
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
	return list[:min(len(list), int(count))]
}
