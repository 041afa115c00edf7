package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// The feature sections that Android's simpleperf adds to perf's
// (system/extras/simpleperf/record_file_format.h and record_file.proto).

// SymbolFile is an entry of the FILE or FILE2 section, or of hiperf's section of symbols: a DSO of the recording device
// and its symbols.
type SymbolFile struct {
	Path       string
	Type       SymbolFileType
	MinVaddr   uint64
	Symbols    []FileSymbol
	DexOffsets []uint64 // offsets of the dex files in it
	// Offset of MinVaddr: in the file, or for a kernel module in memory.
	Offset uint64
}

// SymbolFileType is simpleperf's DsoType.
type SymbolFileType uint32

const (
	symbolFileKernel SymbolFileType = iota
	symbolFileKernelModule
	symbolFileELF
	symbolFileDex
	symbolFileMap // of a JIT
	symbolFileUnknown
)

// FileSymbol is a symbol of a SymbolFile.
type FileSymbol struct {
	Vaddr uint64
	Len   uint32 // bytes
	Name  string
}

// SymbolFiles returns the entries of the FILE and FILE2 sections, and of hiperf's section of symbols.
func (f *File) SymbolFiles() []SymbolFile {
	l, _ := decoded(f, FeatureFile, parseSymbolFiles)
	m, _ := decoded(f, FeatureFile2, parseSymbolFiles2)
	h, _ := decoded(f, FeatureHiperfFiles, parseHiperfFiles)
	return slices.Concat(l, m, h)
}

func parseSymbolFiles(c *cursor) (l []SymbolFile) {
	for len(c.b) > 0 {
		e := cursor{b: c.take(int(c.u32())), order: c.order}
		s := SymbolFile{Path: e.terminated(), Type: SymbolFileType(e.u32()), MinVaddr: e.u64()}
		for n := e.u32(); n > 0 && !e.short; n-- {
			sym := FileSymbol{Vaddr: e.u64(), Len: e.u32(), Name: e.terminated()}
			s.Symbols = append(s.Symbols, sym)
		}
		if s.Type == symbolFileDex {
			words := Words{e.words(uint64(e.u32())), e.order}
			for i := range words.Len() {
				s.DexOffsets = append(s.DexOffsets, words.At(i))
			}
		}
		if len(e.b) >= 8 { // since 2018
			s.Offset = e.u64()
		}
		if e.short || c.short {
			c.short, c.b = true, nil
			break
		}
		l = append(l, s)
	}
	return l
}

func parseSymbolFiles2(c *cursor) (l []SymbolFile) {
	for len(c.b) > 0 {
		m := message{cursor{b: c.take(int(c.u32())), order: c.order}}
		var s SymbolFile
		for m.next() {
			switch field, v, data := m.field(); field {
			case 1:
				s.Path = string(data)
			case 2:
				s.Type = SymbolFileType(v)
			case 3:
				s.MinVaddr = v
			case 4:
				s.Symbols = append(s.Symbols, m.sub(data).symbol())
			case 5:
				s.DexOffsets = m.sub(data).varints()
			case 6, 7: // of ELF files and of kernel modules
				if offs := m.sub(data).varints(); len(offs) > 0 {
					s.Offset = offs[0]
				}
			}
		}
		if m.short || c.short {
			c.short, c.b = true, nil
			break
		}
		l = append(l, s)
	}
	return l
}

// MetaInfo is an entry of the META_INFO section.
type MetaInfo struct{ Key, Value string }

// MetaInfo returns the META_INFO section: "simpleperf_version",
// "event_type_info", "product_props" and more.
func (f *File) MetaInfo() []MetaInfo {
	l, _ := decoded(f, FeatureMetaInfo, parseMetaInfo)
	return l
}

func parseMetaInfo(c *cursor) (l []MetaInfo) {
	for len(c.b) > 0 {
		l = append(l, MetaInfo{c.terminated(), c.terminated()})
	}
	return l
}

// nameSimpleperf names tracepoints without formats in the file, and events of other PMUs. The META_INFO section has a
// line "name,type,config" for each event.
func (f *File) nameSimpleperf() {
	for _, m := range f.MetaInfo() {
		if m.Key != "event_type_info" {
			continue
		}
		names := map[string]string{}
		for line := range strings.Lines(m.Value) {
			if i := strings.IndexByte(line, ','); i > 0 {
				names[strings.TrimSpace(line[i+1:])] = line[:i]
			}
		}
		for i := range f.Attrs {
			a := &f.Attrs[i]
			config := a.Config
			if a.Type > TypeBreakpoint {
				config = 0 // simpleperf adds the PMU's configuration after it writes the line
			} else if a.Type != TypeTracepoint {
				continue
			}
			if a.Name == "" {
				a.Name = names[fmt.Sprintf("%d,%d", a.Type, config)]
			}
		}
	}
}

// UnwindFile is an entry of the DEBUG_UNWIND section: a file. The DEBUG_UNWIND_FILE section has the contents of the
// files, in the order of the entries.
type UnwindFile struct {
	Path string
	Size uint64 // bytes
}

// UnwindFiles returns the DEBUG_UNWIND section.
func (f *File) UnwindFiles() []UnwindFile {
	l, _ := decoded(f, FeatureDebugUnwind, parseUnwindFiles)
	return l
}

func parseUnwindFiles(c *cursor) (l []UnwindFile) {
	m := message{cursor{b: c.b, order: c.order}}
	for m.next() {
		field, _, data := m.field()
		if field != 1 {
			continue
		}
		var u UnwindFile
		for file := m.sub(data); file.next(); m.short = m.short || file.short {
			switch field, v, data := file.field(); field {
			case 1:
				u.Path = string(data)
			case 2:
				u.Size = v
			}
		}
		l = append(l, u)
	}
	c.short, c.b = c.short || m.short, nil
	return l
}

// message reads a protocol buffer field by field.
type message struct{ cursor }

// next reports whether there is another field.
func (m *message) next() bool { return len(m.b) > 0 && !m.short }

// field reads a field. v is the value of a number, data the value of bytes.
func (m *message) field() (n, v uint64, data []byte) {
	tag := m.varint()
	switch tag & 7 {
	case 0:
		v = m.varint()
	case 1:
		if b := m.take(8); b != nil {
			v = binary.LittleEndian.Uint64(b)
		}
	case 2:
		size := m.varint()
		if size > uint64(len(m.b)) {
			m.short, m.b = true, nil
			return 0, 0, nil
		}
		data = m.take(int(size))
	case 5:
		if b := m.take(4); b != nil {
			v = uint64(binary.LittleEndian.Uint32(b))
		}
	default:
		m.short, m.b = true, nil
	}
	if m.short {
		return 0, 0, nil
	}
	return tag >> 3, v, data
}

func (m *message) varint() uint64 {
	v, n := binary.Uvarint(m.b)
	if n <= 0 {
		m.short, m.b = true, nil
		return 0
	}
	m.b = m.b[n:]
	return v
}

// sub returns the message in a field. The message ends at its first corrupt field.
func (m *message) sub(data []byte) *message { return &message{cursor{b: data, order: m.order}} }

// varints returns the numbers of field 1, separate or packed.
func (m *message) varints() (l []uint64) {
	for m.next() {
		field, v, data := m.field()
		if field != 1 {
			continue
		}
		if data == nil {
			l = append(l, v)
		}
		for packed := m.sub(data); packed.next(); {
			if v := packed.varint(); !packed.short {
				l = append(l, v)
			}
		}
	}
	return l
}

func (m *message) symbol() (s FileSymbol) {
	for m.next() {
		switch field, v, data := m.field(); field {
		case 1:
			s.Vaddr = v
		case 2:
			s.Len = uint32(v)
		case 3:
			s.Name = string(data)
		}
	}
	return s
}

// tracingRecord returns the tracing data of simpleperf's files. It is part of a record before the samples.
func (f *File) tracingRecord() ([]byte, bool) {
	if !slices.ContainsFunc(f.Attrs, func(a Attr) bool { return a.Type == TypeTracepoint }) {
		return nil, false
	}
	var split []byte
	for r := range f.Head() {
		switch r.Type {
		case TypeSimpleperfSplit:
			split = append(split, r.Data...)
			continue
		case TypeSimpleperfSplitEnd:
			r, split = f.joinPieces(split), nil
		}
		if r.Type != TypeHeaderTracing && r.Type != TypeSimpleperfTracingData {
			continue
		}
		c := cursor{b: r.Data, order: f.Order}
		if data := c.take(int(c.u32())); !c.short {
			return bytes.Clone(data), true
		}
	}
	return nil, false
}

// joinPieces returns a record of more than 64 KiB, which simpleperf splits. The pieces contain the record with its own
// header, in which the misc field is the upper half of the size.
func (f *File) joinPieces(pieces []byte) Raw {
	c := cursor{b: pieces, order: f.Order}
	r := Raw{Type: Type(c.u32())}
	if size := int(c.u16())<<16 | int(c.u16()); c.short || size != len(pieces) {
		return Raw{}
	}
	r.Data = c.b
	return r
}
