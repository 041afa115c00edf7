// Package jit finds the functions that a process generated: it reads perf maps (/tmp/perf-PID.map) and jitdump files,
// which runtimes with a just-in-time compiler write.
package jit

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

// Function is a function that a process generated.
type Function struct {
	Start, End uint64 // ips; End is exclusive
	Name       string
}

// Dump is a file jit-PID.dump, in which a process logs the code that it generates
// (tools/perf/Documentation/jitdump-specification.txt).
type Dump struct {
	Cycles bool   // times are cycles of the processor, not ns of CLOCK_MONOTONIC
	Codes  []Code // by time
}

// Code is a function with its source lines, valid from a time on.
type Code struct {
	Function
	Time  uint64 // ns of CLOCK_MONOTONIC, or cycles
	Lines []Line // by ip
	// EHFrame is its .eh_frame, whose addresses are those after the code, aligned to 8 bytes; nil if the dump has none.
	EHFrame []byte
}

// Line is the source line of the instructions from IP to the next Line.
type Line struct {
	IP   uint64
	File string
	Line int
}

// Line returns the source line of the instruction at ip, or "" and 0.
func (c *Code) Line(ip uint64) (file string, line int) {
	i := sort.Search(len(c.Lines), func(i int) bool { return c.Lines[i].IP > ip }) - 1
	if i < 0 {
		return "", 0
	}
	return c.Lines[i].File, c.Lines[i].Line
}

// Record types.
const (
	recordLoad   = 0
	recordMove   = 1
	recordDebug  = 2
	recordUnwind = 4
)

// Limits of a file.
const (
	maxCodes  = 1 << 21
	maxRecord = 64 << 20 // bytes
)

var errNoDump = errors.New("not a jitdump file")

// ReadDump reads a file up to its end or its first corrupt record, and returns the code before that. It returns an
// error only if the file is not a jitdump.
func ReadDump(r io.Reader) (*Dump, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	const headerSize, flagCycles = 40, 1
	header := make([]byte, headerSize)
	if _, err := io.ReadFull(b, header); err != nil {
		return nil, fmt.Errorf("read jitdump: %w: %w", errNoDump, err)
	}
	var order binary.ByteOrder
	switch string(header[:4]) {
	case "DTiJ":
		order = binary.LittleEndian
	case "JiTD":
		order = binary.BigEndian
	default:
		return nil, fmt.Errorf("read jitdump: %w", errNoDump)
	}
	if size := order.Uint32(header[8:]); size > headerSize {
		b.Discard(int(min(size, maxRecord)) - headerSize)
	}
	d := dumpReader{b: b, order: order, byIndex: map[uint64]int{}, lines: map[uint64][]Line{}}
	for len(d.codes) < maxCodes && d.record() {
	}
	slices.SortStableFunc(d.codes, func(a, b Code) int { return cmp.Compare(a.Time, b.Time) })
	return &Dump{Cycles: order.Uint64(header[32:])&flagCycles != 0, Codes: d.codes}, nil
}

// dumpReader reads a file's records.
type dumpReader struct {
	b       *bufio.Reader
	order   binary.ByteOrder
	codes   []Code
	byIndex map[uint64]int    // code_index → the function's latest element of codes
	lines   map[uint64][]Line // by start address, for functions that the file loads later
	ehFrame []byte            // of the function that the file loads next
}

// record reads a record. It returns false at the end of the file and at a corrupt record.
func (d *dumpReader) record() bool {
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
	switch {
	case size > maxRecord || kind > recordDebug && kind != recordUnwind:
		return d.skip(size)
	case kind == recordDebug:
		return d.debug(size)
	case kind == recordUnwind:
		return d.unwind(size)
	}
	// Skip the code, which follows the name.
	b, rest := make([]byte, min(size, 1<<16)), size
	if _, err := io.ReadFull(d.b, b); err != nil {
		return false
	}
	rest -= uint32(len(b))
	if kind == recordLoad {
		d.load(when, b)
	} else {
		d.move(when, b)
	}
	return d.skip(rest)
}

func (d *dumpReader) skip(n uint32) bool {
	_, err := d.b.Discard(int(n))
	return err == nil
}

// load adds a new function. The fields of b: pid, tid, vma, code_addr, code_size, code_index, name.
func (d *dumpReader) load(when uint64, b []byte) {
	const fixed = 40
	if len(b) < fixed {
		return
	}
	name, _, ok := bytes.Cut(b[fixed:], []byte{0})
	start, size, index := d.order.Uint64(b[16:]), d.order.Uint64(b[24:]), d.order.Uint64(b[32:])
	if !ok || size == 0 || start+size < start {
		return
	}
	ehFrame := d.ehFrame
	d.ehFrame = nil
	lines := normalizeLines(d.lines[start], start, start+size)
	delete(d.lines, start)
	d.byIndex[index] = len(d.codes)
	d.codes = append(d.codes, Code{Function{start, start + size, string(name)}, when, lines, ehFrame})
}

// move adds a function at its new address. The fields of b: pid, tid, vma, old_code_addr, new_code_addr, code_size,
// code_index.
func (d *dumpReader) move(when uint64, b []byte) {
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
	delta := start - c.Start
	if c.End+delta < start {
		return
	}
	c.Time, c.Start, c.End = when, start, c.End+delta
	c.Lines = slices.Clone(c.Lines)
	for j := range c.Lines {
		c.Lines[j].IP += delta
	}
	d.byIndex[d.order.Uint64(b[40:])] = len(d.codes)
	d.codes = append(d.codes, c)
}

// unwind reads the unwinding information of the function that the file loads next.
func (d *dumpReader) unwind(size uint32) bool {
	b, err := io.ReadAll(io.LimitReader(d.b, int64(min(size, maxUnwind))))
	if err != nil || uint32(len(b)) < min(size, maxUnwind) {
		return false
	}
	d.ehFrame = ehFrame(b, d.order)
	return d.skip(size - uint32(len(b)))
}

// debug reads the lines of a function that a later record loads: code_addr, nr_entry, and for each entry addr, line,
// discriminator, file. The file "\xff" repeats the previous entry's file.
func (d *dumpReader) debug(size uint32) bool {
	b, err := io.ReadAll(io.LimitReader(d.b, int64(size)))
	if err != nil || uint32(len(b)) < size {
		return false
	}
	const fixed, entry = 16, 16
	if len(b) < fixed {
		return true
	}
	start, n := d.order.Uint64(b), d.order.Uint64(b[8:])
	var lines []Line
	file := ""
	for b = b[fixed:]; n > 0 && len(b) > entry; n-- {
		name, rest, ok := bytes.Cut(b[entry:], []byte{0})
		if !ok {
			break
		}
		if string(name) != "\xff" {
			file = string(name)
		}
		lines = append(lines, Line{d.order.Uint64(b), file, int(int32(d.order.Uint32(b[8:])))})
		b = rest
	}
	d.lines[start] = lines
	return true
}

// normalizeLines sorts lines by address. Some runtimes (V8, LLVM) count addresses from the start of the ELF file that
// perf would make of the function, not from its code: normalizeLines subtracts the 64 bytes of the ELF header then.
func normalizeLines(lines []Line, start, end uint64) []Line {
	const elfHeader = 0x40
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(a.IP, b.IP) })
	n := len(lines)
	if n == 0 || lines[0].IP < start+elfHeader || lines[0].IP != start+elfHeader && lines[n-1].IP < end {
		return lines
	}
	for i := range lines {
		lines[i].IP -= elfHeader
	}
	return lines
}
