package key

import (
	"fmt"
	"math/bits"
	"path"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/internal/session"
)

// sampleKey is a key of perf report's --sort that all samples have. Fields of tracepoints may use the same name.
type sampleKey struct {
	name   string
	leaf   bool // of the sampled instruction
	text   func(p *parser, s *session.Sample) string
	number func(p *parser, s *session.Sample) int64
}

// sampleKeys are the keys of perf report's --sort besides commonKeys that a sample has one value of.
var sampleKeys = []sampleKey{
	{name: "comm_nodigit", text: func(_ *parser, s *session.Sample) string { return NoDigits(s.Comm) }},
	{name: "tgid", number: func(_ *parser, s *session.Sample) int64 { return int64(s.PID) }},
	{name: "trace", text: (*parser).trace},
	{name: "srcline", leaf: true, text: func(_ *parser, s *session.Sample) string { return line(s.Leaf) }},
	{name: "srcfile", leaf: true, text: func(_ *parser, s *session.Sample) string { return file(s.Leaf) }},
	{name: "symoff", leaf: true, text: func(_ *parser, s *session.Sample) string { return symbolOffset(s.Leaf) }},
	{name: "symbol_size", leaf: true, number: func(_ *parser, s *session.Sample) int64 { return symbolSize(s.Leaf) }},
	{name: "dso_size", leaf: true, number: func(_ *parser, s *session.Sample) int64 { return mapSize(s.Leaf) }},
	{name: "addr", text: func(_ *parser, s *session.Sample) string { return hex(s.IP) }},
	{name: "socket", number: (*parser).socket},
	{name: "parallelism", number: func(_ *parser, s *session.Sample) int64 { return int64(s.Parallelism) }},
	{name: "cgroup_id", text: func(_ *parser, s *session.Sample) string { return cgroupID(s) }},
	{name: "weight", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[0] }},
	{name: "local_weight", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[0] }},
	{name: "ins_lat", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[1] }},
	{name: "local_ins_lat", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[1] }},
	{name: "p_stage_cyc", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[2] }},
	{name: "local_p_stage_cyc", number: func(p *parser, s *session.Sample) int64 { return p.weights(s)[2] }},
	{name: "transaction", text: func(_ *parser, s *session.Sample) string { return hex(s.Transaction) }},
	{name: "code_page_size", number: func(_ *parser, s *session.Sample) int64 { return int64(s.CodePageSize) }},
	{name: "data_page_size", number: func(_ *parser, s *session.Sample) int64 { return int64(s.DataPageSize) }},
	{name: "phys_daddr", text: func(_ *parser, s *session.Sample) string { return hex(s.PhysAddr) }},
	{name: "locked", text: memory(fields.DataSource.LockText)},
	{name: "tlb", text: memory(fields.DataSource.TLBText)},
	{name: "mem", text: memory(fields.DataSource.LevelText)},
	{name: "snoop", text: memory(fields.DataSource.SnoopText)},
	{name: "blocked", text: memory(fields.DataSource.BlockText)},
	{name: "symbol_daddr", leaf: true, text: access(func(_ *parser, s *session.Sample) string {
		return symbolOffset(s.ResolveData())
	})},
	{name: "dso_daddr", leaf: true, text: access(func(_ *parser, s *session.Sample) string {
		return s.ResolveData().DSO()
	})},
	{name: "symbol_iaddr", leaf: true, text: access(func(_ *parser, s *session.Sample) string {
		return symbolOffset(s.Leaf)
	})},
	{name: "dcacheline", leaf: true, text: access(cacheLine)},
}

// access returns a text of an access to memory, Missing if the address of the data was not recorded.
func access(text func(*parser, *session.Sample) string) func(*parser, *session.Sample) string {
	return func(p *parser, s *session.Sample) string {
		if p.file.Attrs[s.Event].SampleType&format.SampleAddr == 0 {
			return Missing
		}
		return text(p, s)
	}
}

// cacheLine returns the place of the first byte that the CPUs cache together with the accessed one, with the process if
// no other has the data.
func cacheLine(p *parser, s *session.Sample) string {
	d := s.ResolveData()
	at := hex(d.MapOff() &^ (LineSize(p.file) - 1))
	switch {
	case d.Map == nil:
		return at
	case d.Map.Sharing == session.PrivateAnon:
		return fmt.Sprintf("%s+%s of %d", d.DSO(), at, s.PID)
	}
	return d.DSO() + "+" + at
}

// LineSize returns the size of the recorded machine's cache lines in bytes, or else the size of most machines.
func LineSize(f *format.File) uint64 {
	if size := f.Uint32s(format.FeatureCacheLine, 1); len(size) == 1 && bits.OnesCount32(size[0]) == 1 {
		return uint64(size[0])
	}
	return 64
}

// ofSample returns the reader of one of sampleKeys, nil for other words.
func (p *parser) ofSample(word string) *reader {
	for _, k := range sampleKeys {
		if k.name != word {
			continue
		}
		var r reader
		if k.number != nil {
			r = countReader(word, func(s *session.Sample) int64 { return k.number(p, s) })
		} else {
			r = textReader(word, func(s *session.Sample) string { return k.text(p, s) })
		}
		r.leaf = k.leaf
		return &r
	}
	return nil
}

// trace returns the text of a tracepoint.
func (p *parser) trace(s *session.Sample) string {
	t := p.file.Tracepoint(s.Event)
	if t == nil {
		return Missing
	}
	return string(t.AppendPrint(nil, s.Raw, &p.env))
}

// weights returns the weight and the latencies of a sample.
func (p *parser) weights(s *session.Sample) [3]int64 {
	w, ins, stage := s.Weights(&p.file.Attrs[s.Event])
	return [3]int64{int64(w), int64(ins), int64(stage)}
}

// socket returns the package of the sample's CPU, -1 if it is not known.
func (p *parser) socket(s *session.Sample) int64 {
	if p.sockets == nil {
		p.sockets = []format.CPUPlace{}
		if t, ok := p.file.CPUTopology(); ok {
			p.sockets = t.CPUs
		}
	}
	if cpu := p.cpu(s); cpu >= 0 && cpu < int64(len(p.sockets)) {
		return int64(p.sockets[cpu].Package)
	}
	return -1
}

// memory returns a text of a memory access.
func memory(text func(fields.DataSource) string) func(*parser, *session.Sample) string {
	return func(_ *parser, s *session.Sample) string { return text(fields.DataSource(s.DataSrc)) }
}

// line returns the file and line of the innermost function at an address, or else its place in the function or the DSO,
// as perf does.
func line(f *session.Frame) string {
	switch name, sym := file(f), f.Sym(); {
	case name != Missing:
		return name + ":" + strconv.Itoa(f.Calls()[0].Line)
	case sym != nil:
		return sym.Name + "+" + strconv.FormatUint(f.Off(), 10)
	case f.Map == nil:
		return "??:0"
	}
	return f.DSO() + "[" + strconv.FormatUint(f.MapOff(), 16) + "]"
}

// file returns the source file of the innermost function at an address, Missing if it is not known.
func file(f *session.Frame) string {
	if calls := f.Calls(); len(calls) > 0 && calls[0].File != "" {
		return path.Base(calls[0].File)
	}
	return Missing
}

func symbolOffset(f *session.Frame) string {
	if sym := f.Sym(); sym != nil {
		return sym.Name + "+" + hex(f.Off())
	}
	return hex(f.IP)
}

func symbolSize(f *session.Frame) int64 {
	if sym := f.Sym(); sym != nil {
		return int64(sym.End - sym.Start)
	}
	return 0
}

// mapSize returns the size of a frame's mapping in bytes.
func mapSize(f *session.Frame) int64 {
	if f.Map == nil {
		return 0
	}
	return int64(f.Map.End - f.Map.Start)
}

// cgroupID returns device and inode of a sample's cgroup namespace.
func cgroupID(s *session.Sample) string {
	if len(s.Namespaces) <= format.NamespaceCgroup {
		return Missing
	}
	n := s.Namespaces[format.NamespaceCgroup]
	return strconv.FormatUint(n.Dev, 10) + "/" + hex(n.Ino)
}

func hex(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// NoDigits returns a name with <N> for each number.
func NoDigits(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch digit := name[i]-'0' < 10; {
		case !digit:
			b.WriteByte(name[i])
		case i == 0 || name[i-1]-'0' >= 10:
			b.WriteString("<N>")
		}
	}
	return b.String()
}
