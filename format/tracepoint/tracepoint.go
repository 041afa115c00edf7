// Package tracepoint decodes and prints the raw data of tracepoints.
//
// The kernel describes every tracepoint in a format file
// (/sys/kernel/tracing/events/SYSTEM/NAME/format; perf.data carries the same
// text in its TRACING_DATA feature): the fields of the raw data, and a "print
// fmt" in C that formats them. Parse reads the file once and compiles
// the print fmt; Format.AppendPrint then turns raw data into text without
// allocating.
//
// The text equals perf's, which uses libtraceevent (1.8.4, no plugins). That library
// deviates from C when it parses. This package deviates in the same way, because people
// compare outputs byte by byte: parser describes how it groups operators, Format.Refused
// the constructs that it does not read.
//
// The package depends neither on perf.data nor on symbols: the caller passes the format of
// a sample, and a function that names addresses.
package tracepoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Format is one tracepoint's format file. Parse is the only writer, so goroutines may
// share a Format.
type Format struct {
	System   string
	Name     string
	ID       int     // the value of the raw data's common_type
	Fields   []Field // in file order, the common_ ones first
	PrintFmt string  // the text after "print fmt: "

	// PrintErr is the error of parsing the print fmt, or nil.
	PrintErr error

	// Refused names the first construct of the print fmt that libtraceevent does not read, or
	// "" if it reads all. perf prints an event with a Refused or a PrintErr as "[FAILED TO
	// PARSE]" and the fields; so does AppendPrint.
	Refused string

	common int // number of Fields that all tracepoints share
	prog   []segment
}

// Field is one field of the raw data. Offset and Size are in bytes.
type Field struct {
	Name   string
	Type   string // C, brackets included: "char[16]", "__data_loc char[]"
	Offset int
	Size   int
	Signed bool

	Array    bool // Len elements of ElemSize bytes each, if the file gives these numbers
	Len      int
	ElemSize int

	Dynamic  bool // the field contains the place of the data: length<<16 | offset
	Relative bool // the offset counts from the end of the field (__rel_loc)
	String   bool // an array of char, u8 or s8
	Pointer  bool
	Long     bool // the type contains "long": printed in hexadecimal
	Float    bool // a float or double, or an array of them: in probes that gperf recorded

	length *Field // contains the number of valid bytes of this array; nil: all are valid
}

// Env describes the machine that produced the raw data. The zero value is a little-endian
// 64-bit machine without symbols.
type Env struct {
	Order    binary.ByteOrder
	LongSize int // of the kernel, in bytes

	// Symbol returns the name of the kernel function that contains ip. perf does not print the
	// module.
	Symbol func(ip uint64) (name string, offset uint64, module string, ok bool)

	// Source, if set, appends the source line of the kernel code at ip. AppendPrint calls it
	// after a name with an offset.
	Source func(dst []byte, ip uint64) []byte

	// Printk maps addresses to the kernel's constant strings (ParsePrintk).
	Printk map[uint64]string
}

func isBig(order binary.ByteOrder) bool {
	return order != nil && order.Uint16(one) == 1
}

var one = []byte{0, 1} // in big-endian

func (e *Env) longSize() int {
	if e.LongSize == 0 {
		return 8
	}
	return e.LongSize
}

// maxText limits a format file, in bytes. The largest of Linux 6.18 has 6 KiB. The limit
// bounds the time per sample, which grows with the format's length.
const maxText = 64 << 10

// Parse reads a format file. It does not fail if only the print fmt is invalid: PrintErr
// keeps the error, and AppendPrint prints the fields.
func Parse(text []byte, system string) (*Format, error) {
	f := &Format{System: system, ID: -1}
	if len(text) > maxText {
		return nil, fmt.Errorf("tracepoint format in %s: %d bytes exceed the limit of %d", system, len(text), maxText)
	}
	if err := f.parseHead(string(text)); err != nil {
		return nil, fmt.Errorf("tracepoint format %s:%s: %w", system, f.Name, err)
	}
	f.compile()
	return f, nil
}

// parseHead reads everything up to the end of the print fmt's text.
func (f *Format) parseHead(text string) error {
	inFields := false
	for text != "" {
		var line string
		if strings.HasPrefix(text, "print fmt:") {
			f.PrintFmt = strings.TrimSpace(text[len("print fmt:"):])
			break
		}
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ":")
		switch {
		case line == "" && inFields && f.common == 0:
			f.common = len(f.Fields)
		case key == "name":
			f.Name = strings.TrimSpace(value)
		case key == "ID":
			id, err := strconv.ParseUint(strings.TrimSpace(value), 0, 31)
			if err != nil {
				return fmt.Errorf("ID: %w", err)
			}
			f.ID = int(id)
		case key == "field":
			inFields = true
			fd, err := parseField(value)
			if err != nil {
				return fmt.Errorf("field %q: %w", value, err)
			}
			f.Fields = append(f.Fields, fd)
		}
	}
	if f.Name == "" || f.ID < 0 {
		return errors.New("missing name or ID")
	}
	return nil
}

// parseField parses the text after "field:", as in "char comm[16];	offset:8;	size:16;
// signed:0;".
func parseField(s string) (Field, error) {
	decl, rest, _ := strings.Cut(s, ";")
	fd, err := parseDecl(decl)
	if err != nil {
		return fd, err
	}
	fd.Offset, fd.Size = -1, -1
	for part := range strings.SplitSeq(rest, ";") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(value, 0, 31)
		if err != nil {
			return fd, fmt.Errorf("%s: %w", key, err)
		}
		switch key {
		case "offset":
			fd.Offset = int(n)
		case "size":
			fd.Size = int(n)
		case "signed":
			fd.Signed = n != 0
		}
	}
	if fd.Offset < 0 || fd.Size < 0 {
		return fd, errors.New("missing offset or size")
	}
	fd.classify()
	return fd, nil
}

// parseDecl parses the three forms "TYPE NAME", "TYPE NAME[LEN]" and "__data_loc TYPE[]
// NAME".
func parseDecl(decl string) (fd Field, err error) {
	head, rest, array := strings.Cut(decl, "[")
	brackets := ""
	if array {
		end := strings.LastIndexByte(rest, ']')
		if end < 0 {
			return fd, errors.New("missing ]")
		}
		inside := strings.TrimSpace(rest[:end])
		fd.Array = true
		fd.Len = int(min(leadingUint(inside), 1<<31-1))
		brackets = "[" + inside + "]"
		fd.Name = strings.TrimSpace(rest[end+1:])
	}
	head = strings.TrimSpace(head)
	if fd.Name == "" {
		i := strings.LastIndexAny(head, " \t*") + 1
		head, fd.Name = strings.TrimSpace(head[:i]), head[i:]
	}
	if head == "" || fd.Name == "" {
		return fd, errors.New("missing type or name")
	}
	fd.Type = head + brackets
	fd.Pointer = strings.Contains(head, "*")
	return fd, nil
}

// classify sets the properties that libtraceevent derives from the name of the type.
func (fd *Field) classify() {
	has := func(s string) bool { return strings.Contains(fd.Type, s) }
	fd.String = fd.Array && (has("char") || has("u8") || has("s8"))
	fd.Relative = strings.HasPrefix(fd.Type, "__rel_loc")
	fd.Dynamic = fd.Relative || strings.HasPrefix(fd.Type, "__data_loc")
	fd.Long = has("long")
	elem, _, _ := strings.Cut(fd.Type, "[")
	fd.Float = elem == "float" || elem == "double"
	if fd.Dynamic && fd.Size == 2 { // kernels before 2.6.32 wrote only the offset
		fd.String, fd.Array = true, true
	}
	switch {
	case !fd.Array && !fd.Dynamic:
		fd.ElemSize = fd.Size
	case fd.Len > 0:
		fd.ElemSize = fd.Size / fd.Len
	case fd.Dynamic:
		_, elem, _ := strings.Cut(fd.Type, " ")
		fd.ElemSize = elemSize(elem)
	case fd.String:
		fd.ElemSize = 1
	case fd.Long:
		fd.ElemSize = 8
	default:
		// "s32 x[]" is an array of a probe. libtraceevent prints zeros.
		fd.ElemSize = elemSize(fd.Type)
	}
}

// elemSize returns the size of an element of "__data_loc TYPE[]", in bytes. It knows
// libtraceevent's element types, which are probes' types, and returns 0 for others.
func elemSize(typ string) int {
	elem, _, array := strings.Cut(typ, "[")
	if i := strings.LastIndexByte(elem, ' '); i >= 0 {
		elem = elem[i+1:]
	}
	if !array {
		return 0
	}
	switch elem {
	case "u8", "s8", "char":
		return 1
	case "u16", "s16":
		return 2
	case "u32", "s32", "float":
		return 4
	case "u64", "s64", "double":
		return 8
	}
	return 0
}

// Field returns the field with this name, or nil.
func (f *Format) Field(name string) *Field {
	for i := range f.Fields {
		if f.Fields[i].Name == name {
			return &f.Fields[i]
		}
	}
	return nil
}

// Sized reports whether the number of the field's bytes varies: in dynamic arrays and in
// text with a length.
func (fd *Field) Sized() bool { return fd.Dynamic || fd.length != nil }

// Uint returns the number in a field; it extends signed numbers to 64 bits. It returns
// false if the field is not a number or the data ends before it.
func (fd *Field) Uint(raw []byte, order binary.ByteOrder) (uint64, bool) {
	v, ok := readUint(raw, fd.Offset, fd.Size, isBig(order))
	if ok && fd.Signed {
		shift := 64 - 8*fd.Size
		v = uint64(int64(v<<shift) >> shift)
	}
	return v, ok
}

// Bytes returns a field's raw bytes, or the elements of a dynamic array. It returns fewer
// bytes if raw ends early. The result shares the memory of raw.
func (fd *Field) Bytes(raw []byte, order binary.ByteOrder) []byte {
	off, n := fd.span(raw, isBig(order))
	return cut(raw, off, n)
}

// span returns the place of a field's bytes in the data. As in libtraceevent, an offset
// beyond the data becomes 0, and so does a length that exceeds it.
func (fd *Field) span(raw []byte, big bool) (off, n int) {
	if fd.length != nil {
		used, _ := readUint(raw, fd.length.Offset, fd.length.Size, big)
		return fd.Offset, int(min(uint64(fd.Size), used))
	}
	if !fd.Dynamic {
		return fd.Offset, fd.Size
	}
	v, ok := readUint(raw, fd.Offset, fd.Size, big)
	if !ok {
		return 0, 0
	}
	off, n = int(v&0xffff), int(v>>16&0xffff)
	if fd.Size == 2 {
		n = len(raw) - off
	}
	if off+n > len(raw) {
		n = 0
	}
	if off > len(raw) {
		off = 0
	}
	if fd.Relative {
		off += fd.Offset + fd.Size
	}
	return off, n
}

// cut returns raw[off:off+n], limited to the end of raw.
func cut(raw []byte, off, n int) []byte {
	if off < 0 || n < 0 || off >= len(raw) {
		return nil
	}
	return raw[off : off+min(n, len(raw)-off)]
}

// readUint reads an unsigned number. It returns false if size is not 1, 2, 4 or 8, or the
// data is too short.
func readUint(raw []byte, off, size int, big bool) (uint64, bool) {
	if off < 0 || off > len(raw)-size {
		return 0, false
	}
	b := raw[off:]
	switch size {
	case 1:
		return uint64(b[0]), true
	case 2:
		if big {
			return uint64(binary.BigEndian.Uint16(b)), true
		}
		return uint64(binary.LittleEndian.Uint16(b)), true
	case 4:
		if big {
			return uint64(binary.BigEndian.Uint32(b)), true
		}
		return uint64(binary.LittleEndian.Uint32(b)), true
	case 8:
		if big {
			return binary.BigEndian.Uint64(b), true
		}
		return binary.LittleEndian.Uint64(b), true
	}
	return 0, false
}

// ParsePrintk reads the kernel's printk_formats file, which perf.data contains, too. It
// skips lines that are not of the form `0xADDRESS : "TEXT"`.
func ParsePrintk(text []byte) map[uint64]string {
	m := make(map[uint64]string)
	for line := range strings.SplitSeq(string(text), "\n") {
		addr, s, ok := strings.Cut(line, ":")
		if !ok || s == "" {
			continue
		}
		a, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(addr), "0x"), 16, 64)
		if err != nil {
			continue
		}
		s = strings.TrimPrefix(s[1:], `"`)
		s = strings.TrimSuffix(s, `"`)
		m[a] = strings.TrimSuffix(s, `\n`)
	}
	return m
}
