package script

import (
	"strconv"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/symbolize"
	"gperf/symbolize/replay"
)

// Compat is a version of perf whose text is printed.
type Compat int

const (
	Perf7 Compat = iota // 7.3
	Perf6               // 6.1: narrower ids; user addresses of callchains are those within the DSO
)

// Options say what is printed of the samples, and how.
type Options struct {
	Fields   FieldSpec
	MaxStack int  // frames of a callchain
	NoChain  bool // -G: no callchains
	Nanosecs bool // times with nine digits
	Compat   Compat
	// ShowUnwind adds a line that says how the user stack ended.
	ShowUnwind bool
}

// printer turns samples into text. Each goroutine has its own: it keeps the
// text of every frame that it met.
type printer struct {
	opts    *Options
	history *replay.History
	fields  []Field // by event
	events  []event
	env     tracepoint.Env
	symbols map[uint64]kernelName
}

// event is what a line says of each sample of one event.
type event struct {
	name   string // padded to the longest one, with ": "
	chain  bool   // samples have callchains
	format *tracepoint.Format
	frames *frameTexts
}

// frameTexts are the lines of frames, by Frame.ID, as one choice of fields
// shows them.
type frameTexts struct {
	fields Field
	compat Compat
	lines  []string
}

type kernelName struct {
	name, module string
	off          uint64
	ok           bool
}

func newPrinter(f *format.File, sym *symbolize.Symbolizer, h *replay.History, fields []Field, opts *Options) *printer {
	p := &printer{opts: opts, history: h, fields: fields, symbols: map[uint64]kernelName{}}
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
	texts := map[Field]*frameTexts{}
	width := 0
	for i := range f.Attrs {
		width = max(width, len(f.EventName(i)))
	}
	for i := range f.Attrs {
		e := event{name: pad(f.EventName(i), width) + ": ", format: f.Tracepoint(i)}
		e.chain = f.Attrs[i].SampleType&format.SampleCallchain != 0 && !opts.NoChain
		shown := fields[i] & framesFields
		if texts[shown] == nil {
			texts[shown] = &frameTexts{fields: shown, compat: opts.Compat}
		}
		e.frames = texts[shown]
		p.events = append(p.events, e)
	}
	return p
}

// pad puts blanks before s until it is width long.
func pad(s string, width int) string {
	for len(s) < width {
		s = " " + s
	}
	return s
}

// append appends the sample's text: a line, and its callchain.
func (p *printer) append(b []byte, s *replay.Sample) []byte {
	fields, e := p.fields[s.Event], &p.events[s.Event]
	b = p.appendStart(b, s, fields, e)
	if fields&FieldPeriod != 0 {
		b = append(appendUint(b, s.Period, 10), ' ')
	}
	if fields&FieldEvent != 0 {
		b = append(b, e.name...)
	}
	if fields&FieldTrace != 0 && e.format != nil && len(s.Raw) > 0 {
		b = e.format.AppendPrint(b, s.Raw, &p.env)
	}
	if fields&FieldAddr != 0 {
		b = appendHex(b, s.Addr, 16)
	}
	if fields&FieldIP != 0 {
		b = p.appendFrames(b, s, fields, e)
	}
	return append(b, '\n')
}

// appendStart appends what perf_sample__fprintf_start prints: who, where, when.
func (p *printer) appendStart(b []byte, s *replay.Sample, fields Field, e *event) []byte {
	if fields&FieldComm != 0 {
		if fields&FieldIP == 0 || !e.chain {
			b = appendBlanks(b, 16-len(s.Comm))
		}
		b = append(append(b, s.Comm...), ' ')
	}
	width := 7
	if p.opts.Compat == Perf6 {
		width = 5
	}
	switch fields & (FieldPID | FieldTID) {
	case FieldPID | FieldTID:
		b = appendInt(b, s.PID, width)
		b = append(b, '/')
		n := len(b)
		b = strconv.AppendInt(b, int64(s.TID), 10)
		b = append(appendBlanks(b, width-(len(b)-n)), ' ')
	case FieldPID:
		b = append(appendInt(b, s.PID, width), ' ')
	case FieldTID:
		b = append(appendInt(b, s.TID, width), ' ')
	}
	if fields&FieldCPU != 0 {
		b = append(b, '[')
		b = appendZeros(b, uint64(s.CPU), 3)
		b = append(b, "] "...)
	}
	if fields&FieldMisc != 0 {
		b = appendMisc(b, s.Misc)
	}
	if fields&FieldTime != 0 {
		b = p.appendTime(b, s.Time)
	}
	return b
}

func (p *printer) appendTime(b []byte, ns uint64) []byte {
	if p.opts.Nanosecs {
		b = append(appendUint(b, ns/1e9, 5), '.')
		return append(appendZeros(b, ns%1e9, 9), ": "...)
	}
	b = append(appendUint(b, ns/1e9, 12-7), '.')
	return append(appendZeros(b, ns%1e9/1e3, 6), ": "...)
}

// appendMisc appends the letter of the CPU's mode.
func appendMisc(b []byte, m format.Misc) []byte {
	n := len(b)
	switch m & format.MiscCPUModeMask {
	case format.MiscKernel:
		b = append(b, 'K')
	case format.MiscUser:
		b = append(b, 'U')
	case format.MiscHypervisor:
		b = append(b, 'H')
	case format.MiscGuestKernel:
		b = append(b, 'G')
	case format.MiscGuestUser:
		b = append(b, 'g')
	}
	if m&format.MiscExactIP != 0 {
		b = append(b, 'E')
	}
	return append(appendBlanks(b, 6-(len(b)-n)), ' ')
}

// appendFrames appends the callchain, a frame a line, or without one the
// sampled address on the same line.
func (p *printer) appendFrames(b []byte, s *replay.Sample, fields Field, e *event) []byte {
	if !e.chain {
		b = append(b, ' ')
		b = appendHex(b, s.IP, 16)
		return appendName(b, s.Leaf, fields)
	}
	b = append(b, '\n')
	left := p.opts.MaxStack
	for _, f := range s.Kernel[:min(left, len(s.Kernel))] {
		b = append(b, e.frames.line(f)...)
	}
	left -= min(left, len(s.Kernel))
	for _, f := range s.User[:min(left, len(s.User))] {
		b = append(b, e.frames.line(f)...)
	}
	if p.opts.ShowUnwind {
		b = append(b, "\t                 user stack: "...)
		b = append(append(b, p.history.UserEnd(s)...), '\n')
	}
	return b
}

// line returns the frame's line.
func (t *frameTexts) line(f *replay.Frame) string {
	if f.ID >= len(t.lines) {
		t.lines = append(t.lines, make([]string, 1+f.ID)...)
	}
	if t.lines[f.ID] == "" {
		ip := f.IP
		if t.compat == Perf6 && f.Map != nil && !f.Kernel {
			ip = f.Map.Off(ip)
		}
		b := appendHex([]byte{'\t'}, ip, 16)
		t.lines[f.ID] = string(append(appendName(b, f, t.fields), '\n'))
	}
	return t.lines[f.ID]
}

// appendName appends the symbol, the offset in it, and the DSO.
func appendName(b []byte, f *replay.Frame, fields Field) []byte {
	if fields&FieldSym != 0 {
		b = append(append(b, ' '), f.Symbol()...)
		if fields&FieldSymOff != 0 && f.Sym() != nil {
			b = append(b, "+0x"...)
			b = strconv.AppendUint(b, f.Off(), 16)
		}
	}
	if fields&FieldDSO != 0 {
		b = append(append(append(b, " ("...), f.DSO()...), ')')
	}
	return b
}

const blanks = "                "

func appendBlanks(b []byte, n int) []byte {
	for ; n > len(blanks); n -= len(blanks) {
		b = append(b, blanks...)
	}
	if n > 0 {
		b = append(b, blanks[:n]...)
	}
	return b
}

// appendUint appends v in decimal, with blanks before it up to width.
func appendUint(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	return append(appendBlanks(b, width-len(d)), d...)
}

func appendInt(b []byte, v int32, width int) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], int64(v), 10)
	return append(appendBlanks(b, width-len(d)), d...)
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

func appendHex(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 16)
	return append(appendBlanks(b, width-len(d)), d...)
}
