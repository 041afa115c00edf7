package script

import (
	"bytes"
	"cmp"
	"io"
	"strconv"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/symbolize"
)

// Compat is a version of perf whose text is printed.
type Compat int

const (
	Perf7 Compat = iota // 7.3
	Perf6               // 6.1: narrower ids; user addresses of callchains are those within the DSO
)

// Options select the printed parts of samples, and their form.
type Options struct {
	Fields   FieldSpec
	MaxStack int  // frames of a callchain
	NoChain  bool // -G: no callchains
	Nanosecs bool // times with nine digits
	Since    TimeBase
	Compat   Compat
	// ShowUnwind adds a line that says why the user stack ended.
	ShowUnwind bool
	Source
	// Where drops the samples taken elsewhere.
	Where session.Where
	// Events, unless nil, get the samples' text, each the text of one event.
	Events []EventText
	// StopAt are functions at which callchains are cut; their frames are shown.
	StopAt []string
	// Records are the types of records that get a line between the samples. With
	// FINISHED_ROUND, as in perf, all lines have the order of the file. RecordCPUs,
	// unless nil, selects records by their CPUs.
	Records    []format.Type
	RecordCPUs []int
}

// EventText is the output of an event's samples.
type EventText struct {
	io.Writer
	Samples int // how many there were
}

// printer turns samples into text. Each goroutine has its own: it keeps the
// text of every frame that it met.
type printer struct {
	opts    *Options
	session *session.Session
	fields  []Field // by event
	events  []event
	env     tracepoint.Env
	symbols map[uint64]kernelName
	regs    func(bit int) string // names of registers
	clock   format.ClockData
	line    lineState
}

// lineState is the state from previous lines on which a line depends.
type lineState struct {
	// dataWidth is the width of the widest decoded data source so far: perf pads the
	// others to it.
	dataWidth int
	times     times
}

// event is the format of the lines of one event.
type event struct {
	name   string // padded to the longest one, with ": "
	attr   *format.Attr
	chain  bool              // samples have callchains
	trace  bool              // as the processor's branch trace store has them
	absent format.SampleType // fields at the start of a line that samples lack
	format *tracepoint.Format
	frames *frameTexts
	// sampleID says that records other than samples carry a sample id.
	sampleID bool
}

// frameTexts are the lines of frames, as one choice of fields shows them.
type frameTexts struct {
	fields Field
	compat Compat
	Source
	stopAt    []string
	lines     []frameText // by Frame.ID
	parts     []frameText // by number of a part of callchains: see appendPart
	partBytes int
	block     []byte // in which the next line is made
}

type frameText struct {
	lines []byte
	last  bool // no caller is shown
}

type kernelName struct {
	name, module string
	off          uint64
	ok           bool
}

func newPrinter(s *session.Session, fields []Field, opts *Options) *printer {
	f, sym := s.File, s.Symbols
	p := &printer{opts: opts, session: s, fields: fields, symbols: map[uint64]kernelName{}, regs: registerNames(f)}
	p.line.times.since = opts.Since
	p.clock, _ = f.ClockData()
	if f.Tracing != nil {
		p.env = f.Tracing.Env()
	}
	p.env.Symbol = func(ip uint64) (string, uint64, string, bool) {
		k, ok := p.symbols[ip]
		if !ok {
			if s, off, module, why := sym.Kernel(ip); why == symbolize.Found {
				k = kernelName{s.Name, module, off, true}
			}
			p.symbols[ip] = k
		}
		return k.name, k.off, k.module, k.ok
	}
	if opts.Fields.Asks(FieldSrcline) {
		p.env.Source = func(b []byte, ip uint64) []byte {
			calls, _ := sym.KernelSource(ip)
			if len(calls) == 0 {
				return b
			}
			b = append(append(b, " ("...), calls[0].TreePath(opts.FullPath)...)
			return append(appendLine(b, &calls[0]), ')')
		}
	}
	texts := map[Field]*frameTexts{}
	width := 0
	for i := range f.Attrs {
		width = max(width, len(f.EventName(i)))
	}
	for i := range f.Attrs {
		a := &f.Attrs[i]
		e := event{name: pad(f.EventName(i), width) + ": ", format: f.Tracepoint(i), attr: a, trace: isBranchTrace(a)}
		e.chain = a.SampleType&format.SampleCallchain != 0 && !opts.NoChain
		e.absent = startNeeds(fields[i]) &^ a.SampleType
		e.sampleID = a.Flags&format.FlagSampleIDAll != 0
		shown := fields[i] & (framesFields | FieldDSOff | fieldKernelOff | sourceFields)
		if texts[shown] == nil {
			texts[shown] = &frameTexts{fields: shown, compat: opts.Compat, Source: opts.Source, stopAt: opts.StopAt}
		}
		e.frames = texts[shown]
		p.events = append(p.events, e)
	}
	return p
}

// pad returns s, aligned right in width.
func pad(s string, width int) string {
	for len(s) < width {
		s = " " + s
	}
	return s
}

// append appends the sample's text: a line, and its callchain.
func (p *printer) append(b []byte, s *session.Sample) []byte {
	fields, e := p.fields[s.Event], &p.events[s.Event]
	if fields == 0 {
		return b
	}
	b = p.appendStart(b, s, fields, e)
	if fields&FieldPeriod != 0 {
		b = append(text.AppendUint(b, s.Period, 10), ' ')
	}
	if fields&FieldEvent != 0 {
		b = append(b, e.name...)
	}
	if e.trace {
		return p.appendBranchTrace(b, s, fields, e)
	}
	if fields&FieldTrace != 0 && e.format != nil && len(s.Raw) > 0 {
		b = e.format.AppendPrint(b, s.Raw, &p.env)
	}
	if fields&memoryFields != 0 {
		b = p.appendMemory(b, s, fields, e)
	}
	if fields&FieldIP != 0 {
		b = p.appendFrames(b, s, fields, e)
	}
	if fields&lateFields != 0 {
		b = p.appendLate(b, s, fields, e)
	}
	return append(b, '\n')
}

const (
	// memoryFields come before the frames, lateFields after them.
	memoryFields = FieldAddr | FieldDataSrc | FieldWeight | FieldInsLat | FieldRetireLat | FieldCgroup
	lateFields   = FieldIRegs | FieldURegs | branchFields | FieldBPFOutput | FieldPhysAddr |
		FieldDataPageSize | FieldCodePageSize
)

// appendMemory appends the sample's fields of a memory access.
func (p *printer) appendMemory(b []byte, s *session.Sample, fields Field, e *event) []byte {
	if fields&FieldAddr != 0 {
		b = p.appendAddr(b, s, fields, e)
	}
	if fields&FieldDataSrc != 0 {
		n := len(b)
		b = appendDataSource(b, s.DataSrc)
		p.line.dataWidth = max(p.line.dataWidth, len(b)-n)
		b = text.AppendBlanks(b, p.line.dataWidth-(len(b)-n))
	}
	weight, insLat, retireLat := s.Weights(e.attr)
	if fields&FieldWeight != 0 {
		b = text.AppendUint(b, weight, 16)
	}
	if fields&FieldInsLat != 0 {
		b = text.AppendUint(b, uint64(insLat), 16)
	}
	if fields&FieldRetireLat != 0 {
		b = text.AppendUint(b, uint64(retireLat), 16)
	}
	if fields&FieldCgroup != 0 {
		b = append(append(b, ' '), cmp.Or(s.Cgroup, "unknown")...)
	}
	return b
}

// appendAddr appends the address of the data, and of a page fault also the name
// of the data.
func (p *printer) appendAddr(b []byte, s *session.Sample, fields Field, e *event) []byte {
	b = text.AppendHex(b, s.Addr, 16)
	if s.Data == nil || !e.trace && !isPageFault(e.attr) {
		return b
	}
	return appendName(b, s.Data, fields)
}

// isPageFault reports whether the event's addresses are addresses of data with a name.
func isPageFault(a *format.Attr) bool {
	return a.Type == format.TypeSoftware && (a.Config == format.SWPageFaults || a.Config == format.SWMinorFaults ||
		a.Config == format.SWMajorFaults)
}

// isBranchTrace reports whether every branch is a sample, from IP to Addr
// (is_bts_event of tools/perf/util/evsel.h).
func isBranchTrace(a *format.Attr) bool {
	return a.Type == format.TypeHardware && a.Config == format.HWBranches && a.SamplePeriod == 1
}

// appendBranchTrace appends the rest of the line of a branch.
func (p *printer) appendBranchTrace(b []byte, s *session.Sample, fields Field, e *event) []byte {
	if fields&FieldIP != 0 {
		b = p.appendFrames(b, s, fields, e)
	}
	if fields&FieldAddr != 0 || e.attr.SampleType&format.SampleAddr != 0 &&
		!p.opts.Fields.changed(format.TypeHardware) {
		b = p.appendAddr(append(b, " => "...), s, fields, e)
	}
	return append(b, '\n')
}

// appendLate appends the fields after the frames.
func (p *printer) appendLate(b []byte, s *session.Sample, fields Field, e *event) []byte {
	if fields&FieldIRegs != 0 && s.IntrRegsABI != 0 {
		b = p.appendRegs(b, s.IntrRegsABI, e.attr.SampleRegsIntr, s.IntrRegs)
	}
	if fields&FieldURegs != 0 && s.UserRegsABI != 0 {
		b = p.appendRegs(b, s.UserRegsABI, e.attr.SampleRegsUser, s.UserRegs)
	}
	if fields&branchFields != 0 && len(s.Branches) > 0 {
		b = p.appendBranches(b, s, fields, e.attr)
	}
	if fields&FieldBPFOutput != 0 && isBPFOutput(e.attr) {
		b = appendBPFOutput(b, s.Raw)
	}
	if fields&FieldPhysAddr != 0 {
		b = text.AppendHex(b, s.PhysAddr, 16)
	}
	if fields&FieldDataPageSize != 0 {
		b = appendPageSize(append(b, ' '), s.DataPageSize)
	}
	if fields&FieldCodePageSize != 0 {
		b = appendPageSize(append(b, ' '), s.CodePageSize)
	}
	return b
}

// appendPageSize appends a number of bytes as 4K, 2M, 1G, "N/A" for none.
func appendPageSize(b []byte, n uint64) []byte {
	if n == 0 {
		return append(b, "N/A"...)
	}
	unit := 0
	for n/1024 > 1 && unit < 3 {
		n /= 1024
		unit++
	}
	return append(strconv.AppendUint(b, n, 10), "BKMG"[unit])
}

// appendStart appends the text of perf_sample__fprintf_start: thread, CPU, time.
func (p *printer) appendStart(b []byte, s *session.Sample, fields Field, e *event) []byte {
	s = e.known(s)
	if fields&FieldComm != 0 {
		if fields&FieldIP == 0 || !e.chain {
			b = text.AppendBlanks(b, 16-len(s.Comm))
		}
		b = append(append(b, s.Comm...), ' ')
	}
	width := 7
	if p.opts.Compat == Perf6 {
		width = 5
	}
	switch fields & (FieldPID | FieldTID) {
	case FieldPID | FieldTID:
		b = text.AppendInt(b, int64(s.PID), width)
		b = append(b, '/')
		n := len(b)
		b = strconv.AppendInt(b, int64(s.TID), 10)
		b = append(text.AppendBlanks(b, width-(len(b)-n)), ' ')
	case FieldPID:
		b = append(text.AppendInt(b, int64(s.PID), width), ' ')
	case FieldTID:
		b = append(text.AppendInt(b, int64(s.TID), width), ' ')
	}
	if fields&FieldCPU != 0 {
		b = append(b, '[')
		b = appendCPU(b, int32(s.CPU))
		b = append(b, "] "...)
	}
	if fields&FieldMisc != 0 {
		b = appendMisc(b, s.Misc)
	}
	if fields&FieldTOD != 0 {
		b = appendDay(b, s.Time+p.clock.Offset(), p.opts.Nanosecs)
	}
	if fields&FieldTime != 0 {
		b = p.appendTime(b, p.line.times.shown(s.Time))
	}
	return b
}

// startNeeds is the sample_type bits for the fields at the start of a line.
func startNeeds(fields Field) (needs format.SampleType) {
	if fields&(FieldPID|FieldTID) != 0 {
		needs |= format.SampleTID
	}
	if fields&(FieldTime|FieldTOD) != 0 {
		needs |= format.SampleTime
	}
	if fields&FieldCPU != 0 {
		needs |= format.SampleCPU
	}
	return needs
}

// known returns the sample as a line's start shows it, with perf's marks for fields
// that its event does not record.
func (e *event) known(s *session.Sample) *session.Sample {
	if e.absent == 0 {
		return s
	}
	return unset(*s, e.absent)
}

// unset returns the sample with the fields that are absent set as in perf: all
// bits set.
func unset(s session.Sample, absent format.SampleType) *session.Sample {
	if absent&format.SampleTID != 0 {
		s.PID, s.TID = -1, -1
	}
	if absent&format.SampleTime != 0 {
		s.Time = 1<<64 - 1
	}
	if absent&format.SampleCPU != 0 {
		s.CPU = 1<<32 - 1
	}
	return &s
}

func appendCPU(b []byte, cpu int32) []byte {
	if cpu < 0 {
		return appendZeros(append(b, '-'), uint64(-int64(cpu)), 2)
	}
	return appendZeros(b, uint64(cpu), 3)
}

func (p *printer) appendTime(b []byte, ns uint64) []byte {
	if p.opts.Nanosecs {
		b = append(text.AppendUint(b, ns/1e9, 5), '.')
		return append(appendZeros(b, ns%1e9, 9), ": "...)
	}
	b = append(text.AppendUint(b, ns/1e9, 12-7), '.')
	return append(appendZeros(b, ns%1e9/1e3, 6), ": "...)
}

// miscLetters are the marks of a sample's misc field. perf tests whether all bits of
// a mode are set, so it also prints marks of modes whose bits are a subset.
var miscLetters = [...]struct {
	mode   format.Misc
	letter byte
}{{format.MiscKernel, 'K'}, {format.MiscUser, 'U'}, {format.MiscHypervisor, 'H'}, {format.MiscGuestKernel, 'G'},
	{format.MiscGuestUser, 'g'}}

// appendMisc appends the letters of the CPU's mode.
func appendMisc(b []byte, m format.Misc) []byte {
	n := len(b)
	b = appendMode(b, m)
	return text.AppendBlanks(b, 6-(len(b)-n))
}

func appendMode(b []byte, m format.Misc) []byte {
	for _, l := range miscLetters {
		if m&l.mode == l.mode {
			b = append(b, l.letter)
		}
	}
	return b
}

// appendFrames appends the callchain, a frame a line, or without one the
// sampled address on the same line.
func (p *printer) appendFrames(b []byte, s *session.Sample, fields Field, e *event) []byte {
	if !e.chain {
		b = append(b, ' ')
		b = text.AppendHex(b, s.IP, 16)
		b = appendName(b, s.Leaf, fields)
		if fields&sourceFields != 0 {
			b = e.frames.appendSource(b, s.Leaf, s.Leaf.Calls(), 0)
		}
		return b
	}
	b = append(b, '\n')
	b = p.appendChain(b, s, e)
	if p.opts.ShowUnwind {
		b = append(b, "\t                 user stack: "...)
		b = append(append(b, p.session.UserEnd(s)...), '\n')
	}
	return b
}

// appendChain appends the lines of the callchain.
func (p *printer) appendChain(b []byte, s *session.Sample, e *event) []byte {
	left := p.opts.MaxStack
	b, last := e.frames.appendPart(b, s.Kernel, left)
	if last {
		return b
	}
	left -= min(left, s.Kernel.Len())
	if s.Unwound {
		left = p.opts.MaxStack // perf counts the frames that it unwinds itself
	}
	b, _ = e.frames.appendPart(b, s.User, left)
	return b
}

// maxParts is how many parts of callchains have their lines kept, those that occurred twice first; maxPartBytes is the
// length of these lines, in bytes.
const (
	maxParts     = 1 << 14
	maxPartBytes = 8 << 20
)

// appendPart appends the lines of a part of a callchain, of at most n frames. last means that no caller is
// shown.
func (t *frameTexts) appendPart(b []byte, part session.Part, n int) (_ []byte, last bool) {
	at := int(part.Number)
	if at < len(t.parts) && t.parts[at].lines != nil && n >= part.Len() {
		return append(b, t.parts[at].lines...), t.parts[at].last
	}
	start := len(b)
	for i := range min(n, part.Len()) {
		text := t.text(part.At(i))
		b = append(b, text.lines...)
		if text.last {
			last = true
			break
		}
	}
	if at > 0 && at < maxParts && n >= part.Len() && t.partBytes < maxPartBytes {
		if at >= len(t.parts) {
			t.parts = append(t.parts, make([]frameText, 1+at)...)
		}
		t.parts[at] = frameText{bytes.Clone(b[start:]), last}
		t.partBytes += len(b) - start
	}
	return b, last
}

// textBlock is the size of a block of lines, in bytes.
const textBlock = 1 << 16

// text returns the frame's lines.
func (t *frameTexts) text(f *session.Frame) frameText {
	if f.ID >= len(t.lines) {
		t.lines = append(t.lines, make([]frameText, 1+f.ID)...)
	}
	if t.lines[f.ID].lines == nil {
		t.lines[f.ID] = t.make(f)
	}
	return t.lines[f.ID]
}

func (t *frameTexts) make(f *session.Frame) (text frameText) {
	if cap(t.block)-len(t.block) < textBlock/16 {
		t.block = make([]byte, 0, textBlock)
	}
	start := len(t.block)
	t.block, text.last = t.frameLines(t.block, f)
	text.lines = t.block[start:len(t.block):len(t.block)]
	return text
}

// appendName appends the symbol, the offset in it, and the DSO.
func appendName(b []byte, f *session.Frame, fields Field) []byte {
	if fields&FieldSym != 0 {
		b = append(append(b, ' '), f.Symbol()...)
		if fields&FieldSymOff != 0 && f.Sym() != nil {
			b = append(b, "+0x"...)
			b = strconv.AppendUint(b, f.Off(), 16)
		}
	}
	if fields&FieldDSO != 0 {
		b = appendDSO(b, f, fields)
	}
	return b
}

func appendDSO(b []byte, f *session.Frame, fields Field) []byte {
	b = append(append(b, " ("...), f.DSO()...)
	if fields&FieldDSOff != 0 && f.Map != nil && (!f.Kernel || fields&fieldKernelOff != 0) {
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, f.MapOff(), 16)
	}
	return append(b, ')')
}

// appendZeros appends v in decimal, with zeros before it up to width.
func appendZeros(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	for n := width - len(d); n > 0; n-- {
		b = append(b, '0')
	}
	return append(b, d...)
}
