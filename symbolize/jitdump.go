package symbolize

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

// JITDump is a file jit-PID.dump, in which a process logs its generated code
// (tools/perf/Documentation/jitdump-specification.txt).
type JITDump struct {
	Cycles bool      // times are a processor's cycles, not ns of CLOCK_MONOTONIC
	Codes  []JITCode // in the order of time
}

// JITCode is a function, from a time on.
type JITCode struct {
	Time   uint64
	Symbol Symbol    // addresses are ips
	Lines  []JITLine // by ip
}

// JITLine is the source line of instructions from an address on.
type JITLine struct {
	IP   uint64
	File string
	Line int
}

// Line returns the source line of the instruction at ip, or "" and 0.
func (c *JITCode) Line(ip uint64) (file string, line int) {
	i := sort.Search(len(c.Lines), func(i int) bool { return c.Lines[i].IP > ip }) - 1
	if i < 0 {
		return "", 0
	}
	return c.Lines[i].File, c.Lines[i].Line
}

// Kinds of records.
const (
	jitLoad  = 0
	jitMove  = 1
	jitDebug = 2
)

// Limits of a file.
const (
	maxJITCodes  = 1 << 21
	maxJITRecord = 64 << 20
)

var errNoJITDump = errors.New("not a jitdump file")

// ReadJITDump reads a file up to its end or its first damage, and keeps the records
// before that. An error means that it is not a jitdump.
func ReadJITDump(r io.Reader) (*JITDump, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	const headerSize, flagCycles = 40, 1
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(b, header); err != nil {
		return nil, fmt.Errorf("read jitdump: %w: %w", errNoJITDump, err)
	}
	var order binary.ByteOrder
	switch string(header[:4]) {
	case "DTiJ":
		order = binary.LittleEndian
	case "JiTD":
		order = binary.BigEndian
	default:
		return nil, fmt.Errorf("read jitdump: %w", errNoJITDump)
	}
	if size := order.Uint32(header[8:]); size > headerSize {
		b.Discard(int(min(size, maxJITRecord)) - headerSize)
	}
	d := jitReader{b: b, order: order, byIndex: map[uint64]int{}, lines: map[uint64][]JITLine{}}
	for len(d.codes) < maxJITCodes && d.record() {
	}
	slices.SortStableFunc(d.codes, func(a, b JITCode) int { return cmp.Compare(a.Time, b.Time) })
	return &JITDump{Cycles: order.Uint64(header[32:])&flagCycles != 0, Codes: d.codes}, nil
}

// jitReader reads a file's records.
type jitReader struct {
	b       *bufio.Reader
	order   binary.ByteOrder
	codes   []JITCode
	byIndex map[uint64]int       // where in codes the function of an index is, lately
	lines   map[uint64][]JITLine // of functions that are loaded later, by their addresses
}

// record reads a record; it returns false at the end or at damage.
func (d *jitReader) record() bool {
	const prefix = 16
	var head [prefix]byte
	if _, err := io.ReadFull(d.b, head[:]); err != nil {
		return false
	}
	size := d.order.Uint32(head[4:])
	if size < prefix {
		return false
	}
	kind, when := d.order.Uint32(head[:]), d.order.Uint64(head[8:])
	size -= prefix
	if kind > jitDebug || size > maxJITRecord {
		return d.skip(size)
	}
	if kind == jitDebug {
		return d.debug(size)
	}
	// Skip the code, which follows the name.
	b, rest := make([]byte, min(size, 1<<16)), size
	if _, err := io.ReadFull(d.b, b); err != nil {
		return false
	}
	rest -= uint32(len(b))
	if kind == jitLoad {
		d.load(when, b)
	} else {
		d.move(when, b)
	}
	return d.skip(rest)
}

func (d *jitReader) skip(n uint32) bool {
	_, err := d.b.Discard(int(n))
	return err == nil
}

// load takes a function: pid, tid, vma, code_addr, code_size, code_index, name.
func (d *jitReader) load(when uint64, b []byte) {
	const fixed = 40
	if len(b) < fixed {
		return
	}
	name, _, ok := bytes.Cut(b[fixed:], []byte{0})
	start, size, index := d.order.Uint64(b[16:]), d.order.Uint64(b[24:]), d.order.Uint64(b[32:])
	if !ok || size == 0 || start+size < start {
		return
	}
	c := JITCode{Time: when, Symbol: Symbol{Start: start, End: start + size, Name: string(name), Raw: string(name)}}
	c.Lines = settled(d.lines[start], start, start+size)
	delete(d.lines, start)
	d.byIndex[index] = len(d.codes)
	d.codes = append(d.codes, c)
}

// move takes a function that moved: pid, tid, vma, old_code_addr, new_code_addr,
// code_size, code_index.
func (d *jitReader) move(when uint64, b []byte) {
	const fixed = 48
	if len(b) < fixed {
		return
	}
	i, ok := d.byIndex[d.order.Uint64(b[40:])]
	start := d.order.Uint64(b[24:])
	if !ok {
		return
	}
	c := d.codes[i]
	delta := start - c.Symbol.Start
	if c.Symbol.End+delta < start {
		return
	}
	c.Time, c.Symbol.Start, c.Symbol.End = when, start, c.Symbol.End+delta
	c.Lines = slices.Clone(c.Lines)
	for j := range c.Lines {
		c.Lines[j].IP += delta
	}
	d.byIndex[d.order.Uint64(b[40:])] = len(d.codes)
	d.codes = append(d.codes, c)
}

// debug takes the lines of a function that comes later: code_addr, nr_entry,
// and for each addr, line, discriminator, file; the file "\xff" is that of the
// entry before.
func (d *jitReader) debug(size uint32) bool {
	b, err := io.ReadAll(io.LimitReader(d.b, int64(size)))
	if err != nil || uint32(len(b)) < size {
		return false
	}
	const fixed, entry = 16, 16
	if len(b) < fixed {
		return true
	}
	start, n := d.order.Uint64(b), d.order.Uint64(b[8:])
	var lines []JITLine
	file := ""
	for b = b[fixed:]; n > 0 && len(b) > entry; n-- {
		name, rest, ok := bytes.Cut(b[entry:], []byte{0})
		if !ok {
			break
		}
		if string(name) != "\xff" {
			file = string(name)
		}
		lines = append(lines, JITLine{d.order.Uint64(b), file, int(int32(d.order.Uint32(b[8:])))})
		b = rest
	}
	d.lines[start] = lines
	return true
}

// settled puts lines in the order of their addresses. Some runtimes (V8, LLVM)
// count these from the start of the ELF file that perf would make of the
// function: its header, of 64 bytes, is taken off then.
func settled(lines []JITLine, start, end uint64) []JITLine {
	const elfHeader = 0x40
	slices.SortStableFunc(lines, func(a, b JITLine) int { return cmp.Compare(a.IP, b.IP) })
	if n := len(lines); n > 0 && lines[0].IP >= start+elfHeader && (lines[0].IP == start+elfHeader || lines[n-1].IP >= end) {
		for i := range lines {
			lines[i].IP -= elfHeader
		}
	}
	return lines
}
