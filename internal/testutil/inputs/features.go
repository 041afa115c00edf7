package inputs

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// featureLayouts lists the sections that a layout can describe
// (tools/perf/util/header.c). An R is a list: a u32 count, then the entries of the rest of
// the layout.
var featureLayouts = map[int]string{
	3: "S", 4: "S", 5: "S", 6: "S", 8: "S", 9: "S", // host name, OS release, version, arch, CPU description, CPU id
	10: "8",                    // TOTAL_MEM
	11: "RS",                   // CMDLINE
	14: "R488S",                // NUMA_TOPOLOGY
	15: "",                     // BRANCH_STACK
	16: "R4S",                  // PMU_MAPPINGS
	17: "RS44",                 // GROUP_DESC
	18: "*",                    // AUXTRACE
	19: "",                     // STAT
	20: "4R4444SSS",            // CACHE
	21: "88", 23: "8", 24: "8", // SAMPLE_TIME, CLOCKID, DIR_FORMAT
	27:  "44444", // COMPRESSED
	28:  "RSS",   // CPU_PMU_CAPS
	29:  "4488",  // CLOCK_DATA
	30:  "RSS",   // HYBRID_TOPOLOGY
	33:  "44",    // E_MACHINE
	34:  "4",     // CACHE_LINE
	129: ".",     // simpleperf's META_INFO
}

// feature swaps feature section n; p contains nothing else.
func (t *twin) feature(p *part, n int) {
	switch n {
	case 1:
		t.tracingData(p)
	case 2:
		p.buildIDs()
	case 7: // NRCPUS: available, online
		t.cpus = p.uint(4)
		p.exactly("4")
	case 12:
		p.eventDesc()
	case 13:
		t.cpuTopology(p)
	case 22:
		p.memTopology()
	case 25, 26: // BPF_PROG_INFO, BPF_BTF
		if p.uint(4) != 0 {
			p.fail("feature %d is not known", n)
		}
	case 31:
		p.pmuCaps()
	default:
		layout, ok := featureLayouts[n]
		if !ok {
			p.fail("feature %d is not known", n)
			return
		}
		head, entry, list := strings.Cut(layout, "R")
		p.exactly(head)
		if list {
			p.list(4, entry)
		}
	}
}

// buildIDs swaps the BUILD_ID section: records of type 0.
func (p *part) buildIDs() {
	for p.more() {
		size := int(p.t.peek(p.pos+6, 2))
		entry := p.part("build ID", size)
		entry.exactly("4224.") // header, pid; build ID and file name
	}
}

// eventDesc swaps the EVENT_DESC section: the attrs with names and ids.
func (p *part) eventDesc() {
	n, size := p.uint(4), int(p.uint(4))
	for ; n > 0 && p.t.err == nil; n-- {
		p.part("attr", size).fields(attrLayout)
		ids := p.uint(4)
		p.exactly("S")
		for ; ids > 0 && p.t.err == nil; ids-- {
			p.uint(8)
		}
	}
}

// cpuTopology swaps the CPU_TOPOLOGY section: lists of siblings; from perf 4.0
// on core and socket of each CPU, from 5.2 on the list of dies and each CPU's.
func (t *twin) cpuTopology(p *part) {
	p.list(4, "S")
	p.list(4, "S")
	if !p.more() {
		return
	}
	for n := t.cpus; n > 0 && t.err == nil; n-- {
		p.exactly("44")
	}
	if p.more() {
		p.list(4, "S")
	}
	p.elements(4)
}

// memTopology swaps the MEM_TOPOLOGY section: bitmaps of the blocks of memory.
func (p *part) memTopology() {
	p.exactly("88") // version, size of a block
	for n := p.uint(8); n > 0 && p.t.err == nil; n-- {
		p.exactly("88") // node, number of blocks
		for bits := p.uint(8); bits > 0 && p.t.err == nil; bits -= min(bits, 64) {
			p.uint(8)
		}
	}
}

// pmuCaps swaps the PMU_CAPS section.
func (p *part) pmuCaps() {
	for n := p.uint(4); n > 0 && p.t.err == nil; n-- {
		p.list(4, "SS")
		p.exactly("S")
	}
}

// tracingData swaps the TRACING_DATA section (read_trace_data of
// tools/perf/util/trace-event-read.c) and keeps the formats.
func (t *twin) tracingData(p *part) {
	if string(p.bytes(10)) != "\x17\x08\x44tracing" {
		p.fail("not perf's tracing data")
		return
	}
	version := p.terminated()
	if at := p.pos; p.uint(1) != 0 {
		p.fail("not of a little-endian machine")
	} else if t.err == nil {
		t.out[at] = 1
	}
	p.exactly("14") // size of a long, of a page
	p.terminated()  // "header_page"
	p.sized(8)
	p.terminated() // "header_event"
	p.sized(8)
	for n := p.uint(4); n > 0 && t.err == nil; n-- {
		t.format(p.sized(8))
	}
	for n := p.uint(4); n > 0 && t.err == nil; n-- {
		p.terminated() // the system
		for m := p.uint(4); m > 0 && t.err == nil; m-- {
			t.format(p.sized(8))
		}
	}
	p.sized(4) // kallsyms
	p.sized(4) // printk_formats
	if v, err := strconv.ParseFloat(version, 64); err == nil && v >= 0.6 {
		p.sized(8) // saved_cmdlines
	}
}

// terminated takes a string with the NUL.
func (p *part) terminated() string {
	n := bytes.IndexByte(p.t.in[p.pos:p.end], 0)
	return strings.TrimSuffix(string(p.bytes(n+1)), "\x00")
}

// sized takes a size and as many bytes.
func (p *part) sized(size int) []byte { return p.bytes(int(p.uint(size))) }

// field is a field of a tracepoint's raw data: numbers of elem bytes.
type field struct {
	off, size, elem int
	dynamic         bool // the value is length<<16 | offset of the data
	relative        bool // the offset counts from the field's end
}

// format learns a format file's fields.
func (t *twin) format(text []byte) {
	id := -1
	var fields []field
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "ID: "); ok {
			id, _ = strconv.Atoi(v)
		}
		if v, ok := strings.CutPrefix(line, "field:"); ok {
			fields = append(fields, parseField(v))
		}
	}
	if id >= 0 {
		t.formats[uint16(id)] = fields
	}
}

func parseField(line string) field {
	parts := strings.Split(line, ";")
	decl := parts[0]
	var f field
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		n, _ := strconv.Atoi(value)
		switch key {
		case "offset":
			f.off = n
		case "size":
			f.size = n
		}
	}
	f.relative = strings.HasPrefix(decl, "__rel_loc")
	f.dynamic = f.relative || strings.HasPrefix(decl, "__data_loc")
	name, brackets, array := strings.Cut(decl, "[")
	count, _, _ := strings.Cut(brackets, "]")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	switch {
	case strings.Contains(decl, "__be"): // in the network's order on any machine
		f.elem = 1
	case !array:
		f.elem = f.size
	case !f.dynamic && err == nil && n > 0:
		f.elem = f.size / n
	default:
		f.elem = typeSize(name)
	}
	if f.elem != 2 && f.elem != 4 && f.elem != 8 {
		f.elem = 1 // bytes, or a struct that readers do not print
	}
	return f
}

// typeSize returns the size of a C type by the words of the declaration.
func typeSize(decl string) int {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(decl, w) })
	}
	switch {
	case has("char", "u8", "s8", "bool"):
		return 1
	case has("u16", "s16", "short"):
		return 2
	case has("long", "u64", "s64", "*"):
		return 8
	case has("int", "u32", "s32", "unsigned"):
		return 4
	}
	return 1
}

// raw swaps a tracepoint's raw data.
func (t *twin) raw(p *part) {
	fields, ok := t.formats[uint16(t.peek(p.pos, 2))]
	if !ok {
		p.fail("no format of tracepoint %d", t.peek(p.pos, 2))
		return
	}
	for _, f := range fields {
		if p.pos+f.off+f.size > p.end {
			continue // rounded up structs
		}
		part := t.part("field", p.pos+f.off, p.pos+f.off+f.size)
		if !f.dynamic {
			part.elements(f.elem)
			continue
		}
		loc := int(part.uint(4))
		off, n := p.pos+loc&0xffff, loc>>16
		if f.relative {
			off += f.off + f.size
		}
		if off+n <= p.end {
			t.part("dynamic array", off, off+n).elements(f.elem)
		}
	}
}
