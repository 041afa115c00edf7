package export

import (
	"cmp"
	"io"
	"maps"
	"math"
	"slices"

	"gperf/format"
	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/table"
)

// fileFormat is a format that lists samples by thread.
type fileFormat struct {
	// field appends a field of a sample in the form of the file; nil if the file needs none.
	field func(b []byte, name string, v value) []byte
	write func(*set, io.Writer) error
}

// fileFormats are the formats of a set by name.
var fileFormats = map[string]*fileFormat{
	"speedscope": {write: (*set).writeSpeedscope},
	"firefox":    {field: appendFirefoxField, write: (*set).writeFirefox},
	"perfetto":   {field: appendAnnotation, write: (*set).writePerfetto},
}

// set collects the samples of recordings by event and thread. Memory grows with the samples, by about 100 bytes for
// each, and with the fields of tracepoints.
type set struct {
	TimelineOptions
	format *fileFormat
	out    io.Writer

	recordings []*timelineInput
	samples    []sample // of each recording in the order of time
	threads    map[threadEvent]*thread

	functions []function
	mappings  []mapping
	frames    []timelineFrame
	stacks    [][]int32 // of distinct stacks: indexes in frames, the outermost first

	functionIDs map[function]int32
	mappingIDs  map[*session.Map]int32
	known       map[*session.Frame][]int32     // indexes of a frame's functions in frames, outermost first
	stackIDs    table.Tallies[struct{}, int32] // the sum is the index in stacks

	text []byte // reused
	free []byte // memory for fields
}

// timelineInput is a timelineInput in a set.
type timelineInput struct {
	number      int // from 0
	file        *format.File
	events      []*event
	first, last uint64 // the times of the earliest and of the last moment in the samples, in ns
	written     int64  // when the file was written, in ns since 1970, 0 if unknown
	comms       map[int32]string
}

// sample is a sample in a set. Times are in ns of the recording's clock.
type sample struct {
	thread     *thread
	time       uint64
	start, end uint64 // of the span or wait, both time for others
	period     uint64
	stack      int32  // in set.stacks
	cpu        uint32 // 0 if unknown
	title      string // see fieldReader.title
	fields     []byte // in the form of the format
}

// threadEvent distinguishes lists of samples.
type threadEvent struct {
	inRecording, number int // of the recording, and of the event in it
	pid, tid            int32
}

// thread is the samples of an event in a thread.
type thread struct {
	threadEvent
	*event
	recording *timelineInput
	comm      string  // the last name that the thread gave itself
	samples   []int32 // in set.samples
	total     uint64  // of the periods
}

// function is a function as files show it.
type function struct {
	name string
	file string // of the source, "" if unknown
	line int    // of the declaration, 0 if unknown
	dso  string
	kind session.Kind
}

// timelineFrame is a function at an address.
type timelineFrame struct {
	function int32
	mapping  int32  // -1 if the address is in none
	addr     uint64 // in the DSO: an offset in the file, or for the kernel from the start of the mapping
	line     int
	depth    int    // of the inlined function, 0 for the one that contains the others
	start    uint64 // of the symbol, as addr; 0 if unknown
}

// mapping is a range where a process mapped a DSO.
type mapping struct {
	of   *session.Map
	name string // of the DSO
}

func newSet(f *fileFormat, w io.Writer, o TimelineOptions) *set {
	return &set{TimelineOptions: o, format: f, out: w, threads: map[threadEvent]*thread{},
		functionIDs: map[function]int32{},
		mappingIDs:  map[*session.Map]int32{}, known: map[*session.Frame][]int32{}}
}

// Finish writes the file. Without samples it returns ErrNoSamples.
func (p *set) Finish() error {
	if len(p.samples) == 0 {
		return ErrNoSamples
	}
	return p.format.write(p, p.out)
}

// Add collects the samples of a recording. The result counts the skipped parts of the file.
func (p *set) Add(s *session.Session) (format.Skipped, error) {
	r := &timelineInput{number: len(p.recordings), file: s.File, first: math.MaxUint64, comms: map[int32]string{}}
	if !s.Written.IsZero() {
		r.written = s.Written.UnixNano()
	}
	fields, err := newFieldReader(s, p.TimelineOptions)
	if err != nil {
		return format.Skipped{}, err
	}
	r.events = fields.events
	p.recordings = append(p.recordings, r)
	return s.Walk(session.WalkOptions{Names: true, KeepChains: true}, func(b *session.Batch) error {
		p.lookUp(b.Samples)
		for i := range b.Samples {
			p.sample(r, fields, &b.Samples[i])
		}
		b.Release()
		return nil
	})
}

// sample adds a sample to the thread.
func (p *set) sample(r *timelineInput, fields *fieldReader, s *session.Sample) {
	k := threadEvent{r.number, s.Event, s.PID, s.TID}
	t := p.threads[k]
	if t == nil {
		t = &thread{threadEvent: k, event: r.events[s.Event], recording: r}
		p.threads[k] = t
	}
	t.comm = s.Comm
	r.comms[s.TID] = s.Comm
	one := sample{thread: t, time: s.Time, period: s.Period, stack: p.stack(s), cpu: s.CPU, title: t.name}
	one.start, one.end = fields.interval(s)
	if p.format.field != nil {
		one.title = fields.title(s)
		p.text = p.text[:0]
		add := func(name string, v value) { p.text = p.format.field(p.text, name, v) }
		fields.read(s, add)
		fields.ofWait(s, add)
		one.fields = p.keep(p.text)
	}
	from := min(one.start, one.time)
	if t.event.clock && p.Weight == "" {
		from -= min(one.period, from)
	}
	r.first = min(r.first, from)
	r.last = max(r.last, one.end, one.time)
	t.samples = append(t.samples, int32(len(p.samples)))
	t.total += s.Period
	p.samples = append(p.samples, one)
}

// keep returns a copy of b. Copies share blocks of memory.
func (p *set) keep(b []byte) []byte {
	if len(b) > len(p.free) {
		p.free = make([]byte, max(len(b), 1<<16))
	}
	kept := p.free[:len(b):len(b)]
	p.free = p.free[len(b):]
	copy(kept, b)
	return kept
}

// stack returns the index of a sample's stack.
func (p *set) stack(s *session.Sample) int32 {
	t, added := p.stackIDs.At(nil, 0, s.StackKey())
	if added {
		var stack []int32 // innermost first
		for f := range s.Stack(p.MaxStack) {
			stack = append(stack, p.framesOf(f)...)
		}
		slices.Reverse(stack)
		t.Sum, p.stacks = int32(len(p.stacks)), append(p.stacks, stack)
	}
	return t.Sum
}

// lookUp looks up the functions of new frames, on all CPUs.
func (p *set) lookUp(samples []session.Sample) {
	session.LookUpCalls(func(yield func(*session.Frame) bool) {
		for i := range samples {
			for f := range samples[i].Stack(p.MaxStack) {
				if _, ok := p.known[f]; !ok && !yield(f) {
					return
				}
			}
		}
	})
}

// framesOf returns the indexes of a frame's functions in set.frames, innermost first.
func (p *set) framesOf(f *session.Frame) []int32 {
	ids, ok := p.known[f]
	if ok {
		return ids
	}
	at := timelineFrame{mapping: p.mapping(f.Map), addr: f.MapOff()}
	if f.Return && at.addr > 0 {
		at.addr-- // in the call
	}
	if sym := f.Sym(); sym != nil {
		at.start = sym.Start
	}
	if m := f.Map; m != nil && f.Kernel {
		at.addr -= min(at.addr, m.Start)
		at.start -= min(at.start, m.Start)
	}
	own := function{dso: f.DSO(), kind: f.Kind()}
	list := f.Functions(!p.NoInline)
	if len(list) == 0 {
		list = []session.Function{{Name: f.Label()}}
	}
	for i, fn := range list {
		own.name, own.file, own.line = fn.Name, fn.File, fn.Start
		at.function = intern.Index(p.functionIDs, &p.functions, own)
		at.line, at.depth = fn.Line, len(list)-1-i
		ids = append(ids, int32(len(p.frames)))
		p.frames = append(p.frames, at)
	}
	p.known[f] = ids
	return ids
}

// mapping returns the index of a mapping, -1 for none.
func (p *set) mapping(m *session.Map) int32 {
	if m == nil {
		return -1
	}
	id, ok := p.mappingIDs[m]
	if !ok {
		id = int32(len(p.mappings))
		p.mappings, p.mappingIDs[m] = append(p.mappings, mapping{m, m.DSO.Name}), id
	}
	return id
}

// ordered returns the threads in the order of files: by recording and event, those with the largest sum of periods
// first.
func (p *set) ordered() []*thread {
	return slices.SortedFunc(maps.Values(p.threads), func(a, b *thread) int {
		return cmp.Or(cmp.Compare(a.inRecording, b.inRecording),
			cmp.Compare(a.number, b.number), cmp.Compare(b.total, a.total),
			cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
	})
}
