package inputs

import "math/bits"

// Types of records whose layout a table cannot describe.
const (
	recordMmap2        = 10
	recordSample       = 9
	recordRead         = 8
	recordNamespaces   = 16
	recordAttr         = 64 // from here on made by perf: no sample id at the end
	recordTracingData  = 66
	recordBuildID      = 67
	recordThreadMap    = 73
	recordAuxtrace     = 71
	recordAuxtraceErr  = 72
	recordCPUMap       = 74
	recordEventUpdate  = 78
	recordFeature      = 80
	recordCompressed   = 81
	recordCompressed2  = 83
	miscMmapBuildID    = 1 << 14
	updateUnit         = 0
	updateScale        = 1
	updateName         = 2
	updateCPUs         = 3
	cpuMapCPUs         = 0
	cpuMapMask         = 1
	cpuMapRange        = 2
	recordHeaderLayout = "422" // type, misc, size
)

// recordLayouts are the bodies of records, less the sample id.
var recordLayouts = map[uint32]string{
	1:  "44888.", // MMAP
	2:  "88",     // LOST
	3:  "44.",    // COMM
	4:  "44448",  // EXIT
	5:  "888",    // THROTTLE
	6:  "888",    // UNTHROTTLE
	7:  "44448",  // FORK
	11: "888",    // AUX
	12: "44",     // ITRACE_START
	13: "8",      // LOST_SAMPLES
	14: "",       // SWITCH
	15: "44",     // SWITCH_CPU_WIDE
	17: "8422.",  // KSYMBOL
	18: "224.",   // BPF_EVENT
	19: "8.",     // CGROUP
	20: "822.",   // TEXT_POKE
	21: "8",      // AUX_OUTPUT_HW_ID
	22: "*",      // CALLCHAIN_DEFERRED
	65: "8.",     // HEADER_EVENT_TYPE
	68: "",       // FINISHED_ROUND
	69: "*",      // ID_INDEX
	70: "44*",    // AUXTRACE_INFO
	75: "*",      // STAT_CONFIG
	76: "844888", // STAT
	77: "88",     // STAT_ROUND
	79: "88888.", // TIME_CONV; the shorter one of old kernels contains three numbers
	82: "",       // FINISHED_INIT
}

// records swaps the records that p is all of.
func (t *twin) records(p *part) {
	for p.more() {
		kind, misc, size := uint32(t.peek(p.pos, 4)), uint16(t.peek(p.pos+4, 2)), int(t.peek(p.pos+6, 2))
		if size < 8 {
			p.fail("record of %d bytes", size)
			return
		}
		rec := p.part("record header", 8)
		rec.exactly(recordHeaderLayout)
		body := p.part("record", size-8)
		t.record(kind, misc, body)
		if body.more() {
			body.fail("%d bytes of type %d are not known", body.end-body.pos, kind)
		}
		switch kind { // records with a payload
		case recordAuxtrace:
			p.bytes(int(t.peek(body.end-size+8, 8)))
		case recordTracingData:
			n := int(t.peek(body.end-size+8, 4))
			if part := p.part("tracing data", n); n > 0 {
				t.tracingData(part)
			}
			p.bytes(-n & 7)
		}
	}
}

func (t *twin) record(kind uint32, misc uint16, p *part) {
	if kind == recordSample {
		t.sample(p)
		return
	}
	if kind < recordAttr {
		t.trailer(p)
	}
	switch kind {
	case recordMmap2:
		p.exactly("44888")
		if misc&miscMmapBuildID != 0 {
			p.bytes(24)
		} else {
			p.exactly("4488")
		}
		p.exactly("44.")
	case recordRead:
		p.exactly("44*")
	case recordNamespaces:
		p.exactly("44*")
	case recordAttr:
		i := t.attr(p)
		t.ids(p, i)
	case recordTracingData:
		p.exactly("4")
		p.bytes(p.end - p.pos)
	case recordBuildID:
		p.exactly("4.")
	case recordThreadMap:
		for n := p.uint(8); n > 0 && t.err == nil; n-- {
			p.exactly("8")
			p.bytes(16)
		}
	case recordAuxtrace:
		p.exactly("8884444")
	case recordAuxtraceErr:
		auxtraceError(p)
	case recordCPUMap:
		t.cpuMap(p)
	case recordEventUpdate:
		t.eventUpdate(p)
	case recordFeature:
		if n := int(p.uint(8)); p.more() { // an empty one marks the end
			t.feature(p, n)
		}
		p.bytes(p.end - p.pos) // rounded up
	case recordCompressed, recordCompressed2:
		p.fail("compressed records are not swapped")
	default:
		layout, ok := recordLayouts[kind]
		if !ok {
			p.fail("type %d is not known", kind)
		}
		p.fields(layout)
	}
}

// trailer swaps the sample id that closes a record of the kernel, and takes it
// off the record.
func (t *twin) trailer(p *part) {
	if len(t.attrs) == 0 || t.attrs[0].flags&flagSampleIDAll == 0 {
		return
	}
	a := t.event(p, false)
	layout := ""
	for _, f := range [...]struct {
		bit    int
		layout string
	}{{1, "44"}, {2, "8"}, {6, "8"}, {9, "8"}, {7, "44"}, {16, "8"}} { // TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER
		if a.sampleType>>f.bit&1 != 0 {
			layout += f.layout
		}
	}
	size := layoutSize(layout)
	if size > p.end-p.pos {
		p.fail("no room for a sample id")
		return
	}
	p.end -= size
	t.part("sample id", p.end, p.end+size).exactly(layout)
}

func layoutSize(layout string) (n int) {
	for _, c := range layout {
		n += int(c - '0')
	}
	return n
}

// event returns the attr of a record by id, or the first attr if the id is unknown.
func (t *twin) event(p *part, sample bool) *attr {
	if len(t.attrs) == 0 {
		p.fail("no attr before it")
		return &attr{}
	}
	st := t.attrs[0].sampleType
	has := func(bit int) int { return int(st >> bit & 1) }
	var off int
	switch {
	case has(16) != 0 && sample:
		off = p.pos
	case has(16) != 0:
		off = p.end - 8
	case has(6) == 0:
		return &t.attrs[0]
	case sample:
		off = p.pos + 8*(has(0)+has(1)+has(2)+has(3))
	default:
		off = p.end - 8*(1+has(9)+has(7))
	}
	return &t.attrs[t.byID[t.peek(off, 8)]]
}

// sample swaps a SAMPLE record in the order of perf_output_sample of
// kernel/events/core.c.
func (t *twin) sample(p *part) {
	a := t.event(p, true)
	has := func(bit int) bool { return a.sampleType>>bit&1 != 0 }
	for _, f := range [...]struct {
		bit    int
		layout string
	}{{16, "8"}, {0, "8"}, {1, "44"}, {2, "8"}, {3, "8"}, {6, "8"}, {9, "8"}, {7, "44"}, {8, "8"}} {
		if has(f.bit) {
			p.exactly(f.layout)
		}
	}
	if has(4) {
		readValues(p, a.readFormat)
	}
	if has(5) {
		p.list(8, "8")
	}
	if has(10) {
		raw := p.part("raw data", int(p.uint(4)))
		if a.kind == kindTracepoint {
			t.raw(raw)
		}
	}
	if has(11) {
		branches(p, a.branchType)
	}
	if has(12) {
		registers(p, a.regsUser)
	}
	if has(13) {
		if n := int(p.uint(8)); n > 0 {
			p.bytes(n)
			p.uint(8)
		}
	}
	if has(14) || has(24) { // WEIGHT; the parts of WEIGHT_STRUCT keep the places in the number
		p.uint(8)
	}
	if has(15) { // DATA_SRC, also bit-fields
		p.uint(8)
	}
	if has(17) {
		p.uint(8)
	}
	if has(18) {
		registers(p, a.regsIntr)
	}
	for _, bit := range [...]int{19, 21, 22, 23} { // PHYS_ADDR, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE
		if has(bit) {
			p.uint(8)
		}
	}
	if has(20) { // AUX
		p.bytes(int(p.uint(8)))
	}
}

func readValues(p *part, rf uint64) {
	times := bits.OnesCount64(rf & 3)
	each := 1 + bits.OnesCount64(rf&(1<<2|1<<4))
	n := times + each
	if rf&readGroup != 0 {
		n = times + int(p.uint(8))*each
	}
	for ; n > 0 && p.t.err == nil; n-- {
		p.uint(8)
	}
}

func branches(p *part, kind uint64) {
	n := p.uint(8)
	if kind&branchHWIndex != 0 {
		p.uint(8)
	}
	for ; n > 0 && p.t.err == nil; n-- {
		p.exactly("88")
		p.put(func(v uint64) uint64 { return mirror(v, branchBits) })
	}
}

func registers(p *part, mask uint64) {
	if p.uint(8) == 0 { // PERF_SAMPLE_REGS_ABI_NONE
		return
	}
	for range bits.OnesCount64(mask) {
		p.uint(8)
	}
}

// auxtraceError swaps an AUXTRACE_ERROR. Its format, the sixth number, says which fields surround the message.
func auxtraceError(p *part) {
	p.exactly("44444")
	format := p.uint(4)
	p.exactly("8")
	if format > 0 {
		p.exactly("8") // time
	}
	if format > 1 && p.end-p.pos > 64 {
		p.bytes(64)
		p.exactly("44") // machine and virtual CPU
	}
	p.bytes(p.end - p.pos)
}

// cpuMap swaps the data of CPU_MAP records.
func (t *twin) cpuMap(p *part) {
	switch kind := p.uint(2); kind {
	case cpuMapCPUs:
		for n := p.uint(2); n > 0 && t.err == nil; n-- {
			p.uint(2)
		}
	case cpuMapMask:
		n, size := p.uint(2), int(p.uint(2))
		if size == 8 {
			p.bytes(4) // padding: __pad of struct perf_record_mask_cpu_map64
		}
		for ; n > 0 && t.err == nil; n-- {
			p.uint(size)
		}
	case cpuMapRange:
		p.exactly("1122")
	default:
		p.fail("map of kind %d", kind)
	}
	p.bytes(p.end - p.pos)
}

func (t *twin) eventUpdate(p *part) {
	kind := p.uint(8)
	p.uint(8) // id
	switch kind {
	case updateUnit, updateName:
	case updateScale:
		p.uint(8)
	case updateCPUs:
		t.cpuMap(p)
	default:
		p.fail("update of kind %d", kind)
	}
	p.bytes(p.end - p.pos)
}
