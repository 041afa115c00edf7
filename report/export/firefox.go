package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// firefoxVersion is the version of the processed profile format, as docs-developer/CHANGELOG-formats.md of Firefox
// Profiler counts them. https://profiler.firefox.com converts it to later ones.
const firefoxVersion = 58

// writeFirefox writes a processed profile of Firefox Profiler (src/types/profile.ts): a thread for each event of each
// thread, with its samples, whose weights are their periods, and its tracepoints and waits as markers. Markers of spans
// and waits last as long as these.
//
// Speedscope reads profiles of Firefox only in the form of before 2018. Member "profile" therefore contains the sums of
// the first event again, which Firefox Profiler ignores.
func (p *set) writeFirefox(w io.Writer) error {
	f := &firefox{set: p, clock: p.newClock(), strings: newNumbered[string](), sources: newNumbered[int32](),
		libs: newNumbered[firefoxLib]()}
	threads := p.ordered()
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(`{"meta":`)
	out.Write(encodedTimeline(f.meta(threads)))
	out.WriteString(`,"threads":[`)
	for i, t := range threads {
		if i > 0 {
			out.WriteByte(',')
		}
		f.writeThread(out, t, i, threads)
	}
	out.WriteString(`],"libs":`)
	out.Write(encodedTimeline(f.libs.list))
	out.WriteString(`,"pages":[],"shared":`)
	out.Write(encodedTimeline(f.shared()))
	out.WriteString(`,"systemHost":{"name":"Firefox"},"profile":`)
	out.Write(encodedTimeline(f.legacy(threads)))
	out.WriteString("}\n")
	return out.Flush()
}

// appendFirefoxField appends a field of a marker.
func appendFirefoxField(b []byte, name string, v value) []byte {
	return appendMember(append(b, ','), firefoxKey(name), v)
}

// firefoxKey returns the name of a field in markers, which use two of the names for other members.
func firefoxKey(name string) string {
	if name == "type" || name == "cause" {
		return name + "_"
	}
	return name
}

// numbered numbers distinct values.
type numbered[T comparable] struct {
	list []T
	ids  map[T]int32
}

func newNumbered[T comparable]() *numbered[T] { return &numbered[T]{list: []T{}, ids: map[T]int32{}} }

// id returns the number of a value, and whether it is new.
func (t *numbered[T]) id(v T) (id int32, added bool) {
	id, ok := t.ids[v]
	if !ok {
		id = int32(len(t.list))
		t.list, t.ids[v] = append(t.list, v), id
	}
	return id, !ok
}

// firefox writes a profile.
type firefox struct {
	set     *set
	clock   *clock
	strings *numbered[string]
	sources *numbered[int32] // source files, indexes in strings
	libs    *numbered[firefoxLib]
}

func (f *firefox) string(s string) int32 {
	id, _ := f.strings.id(s)
	return id
}

// indexes is a column of a table in JSON, where -1 is null.
type indexes []int32

// MarshalJSON implements json.Marshaler.
func (l indexes) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIndex(b, v)
	}
	return append(b, ']'), nil
}

func appendIndex(b []byte, v int32) []byte {
	if v < 0 {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, int64(v), 10)
}

// repeat returns a column with n equal values.
func repeat[T any](n int, v T) []T { return slices.Repeat([]T{v}, n) }

// firefoxCategories are the categories of frames. The first grey one is the default.
var firefoxCategories = []firefoxCategory{
	session.KindUnknown: {"Other", "grey", []string{"Other", "Inlined"}},
	session.KindKernel:  {"Kernel", "orange", []string{"Other", "Inlined"}},
	session.KindNative:  {"Native", "yellow", []string{"Other", "Inlined"}},
	session.KindJIT:     {"JIT", "green", []string{"Other", "Inlined"}},
	session.KindRuntime: {"Runtime", "blue", []string{"Other", "Inlined"}},
}

type firefoxCategory struct {
	Name          string   `json:"name"`
	Color         string   `json:"color"`
	Subcategories []string `json:"subcategories"`
}

type firefoxMeta struct {
	Categories       []firefoxCategory `json:"categories"`
	Interval         json.RawMessage   `json:"interval"`
	StartTime        json.RawMessage   `json:"startTime"`
	End              json.RawMessage   `json:"profilingEndTime"`
	Start            int               `json:"profilingStartTime"`
	Process          int               `json:"processType"`
	Product          string            `json:"product"`
	Importer         string            `json:"importedFrom"`
	Stackwalk        int               `json:"stackwalk"`
	Version          int               `json:"version"`
	Processed        int               `json:"preprocessedProfileVersion"`
	Symbolicated     bool              `json:"symbolicated"`
	OneStackType     bool              `json:"usesOnlyOneStackType"`
	NotOnSearchfox   bool              `json:"sourceCodeIsNotOnSearchfox"`
	Units            map[string]string `json:"sampleUnits"`
	Schemas          []firefoxSchema   `json:"markerSchema"`
	Platform         string            `json:"platform"`
	Arguments        string            `json:"arguments,omitempty"`
	OSCPU            string            `json:"oscpu,omitempty"`
	CPU              string            `json:"CPUName,omitempty"`
	CPUs             uint32            `json:"logicalCPUs,omitempty"`
	Visible          []int             `json:"initialVisibleThreads"`
	Selected         []int             `json:"initialSelectedThreads"`
	KeepsThreadOrder bool              `json:"keepProfileThreadOrder"`
}

type firefoxSchema struct {
	Name    string         `json:"name"`
	Tooltip string         `json:"tooltipLabel"`
	Table   string         `json:"tableLabel,omitempty"`
	Chart   string         `json:"chartLabel"`
	Display []string       `json:"display"`
	Fields  []firefoxField `json:"fields"`
}

type firefoxField struct {
	Key    string `json:"key"`
	Label  string `json:"label"`
	Format string `json:"format"`
}

// meta describes the profile.
func (f *firefox) meta(threads []*thread) firefoxMeta {
	r := f.set.recordings[0]
	m := firefoxMeta{Categories: firefoxCategories, Interval: appendMillis(nil, f.interval()),
		StartTime: appendMillis(nil, f.clock.began), Product: "gperf", Importer: "gperf", Stackwalk: 1, Version: 24,
		Processed: firefoxVersion, Symbolicated: true, OneStackType: true, NotOnSearchfox: true,
		Units:    map[string]string{"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
		Platform: "Linux", Arguments: strings.Join(r.file.Cmdline(), " "), Selected: []int{0}, KeepsThreadOrder: true,
		OSCPU:   strings.TrimSpace("Linux " + r.file.String(format.FeatureArch)),
		CPU:     r.file.String(format.FeatureCPUDesc),
		Schemas: []firefoxSchema{}}
	if n, ok := r.file.NrCPUs(); ok {
		m.CPUs = n.Online
	}
	last := int64(0)
	for _, r := range f.set.recordings {
		if r.first <= r.last {
			last = max(last, f.clock.since(r, r.last))
		}
	}
	m.End = appendMillis(nil, last)
	const visible = 15 // as many tracks as a window shows
	for i := range min(len(threads), visible) {
		m.Visible = append(m.Visible, i)
	}
	written := map[string]bool{}
	for _, r := range f.set.recordings {
		for _, e := range r.events {
			if e.marks() && !written[e.name] {
				written[e.name] = true
				m.Schemas = append(m.Schemas, e.schema())
			}
		}
	}
	return m
}

// interval returns the usual time between samples in ns: Firefox Profiler draws a sample that wide.
func (f *firefox) interval() int64 {
	for _, s := range f.set.samples {
		if s.thread.event.clock && f.set.Weight == "" && s.period > 0 {
			return int64(s.period)
		}
	}
	return 1e6
}

// marks reports whether the samples of an event are markers.
func (e *event) marks() bool { return e.format != nil || e.wait }

// marksCPU reports whether markers of an event contain the CPU as a field besides the tracepoint's fields.
func (e *event) marksCPU() bool { return e.cpu && (e.format == nil || e.format.Field("cpu") == nil) }

// schema describes the markers of an event.
func (e *event) schema() firefoxSchema {
	s := firefoxSchema{Name: e.name, Tooltip: "{marker.name}", Chart: "{marker.name}", Fields: []firefoxField{},
		Display: []string{"marker-chart", "marker-table", "timeline-overview"}}
	var labels []string
	for _, fd := range e.fields {
		one := firefoxField{Key: firefoxKey(fd.Key), Label: fd.Key, Format: "integer"}
		switch {
		case fd.text:
			one.Format = "string"
		case fd.Key == "duration":
			one.Format = "nanoseconds"
		}
		s.Fields = append(s.Fields, one)
		labels = append(labels, fmt.Sprintf("%s={marker.data.%s}", fd.Key, one.Key))
	}
	if e.wait {
		s.Fields = append(s.Fields, firefoxField{"kind", "kind", "string"},
			firefoxField{"waker_comm", "waker", "string"},
			firefoxField{"waker_pid", "waker pid", "integer"}, firefoxField{"waker_tid", "waker tid", "integer"})
		labels = append(labels, "{marker.data.kind}", "{marker.data.waker_comm}")
	}
	if e.marksCPU() {
		s.Fields = append(s.Fields, firefoxField{"cpu", "CPU", "integer"})
	}
	s.Table = strings.Join(labels, " ")
	return s
}

// firefoxLib is a file with code.
type firefoxLib struct {
	Arch      string `json:"arch"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	DebugName string `json:"debugName"`
	DebugPath string `json:"debugPath"`
	Breakpad  string `json:"breakpadId"`
	Code      string `json:"codeId"`
}

// lib returns the index of the file of a mapping.
func (f *firefox) lib(m *mapping, arch string) int32 {
	id := m.of.DSO.BuildID
	short := m.of.DSO.ShortName()
	n, _ := f.libs.id(firefoxLib{arch, short, m.name, short, m.name, breakpadID(id.Bytes()), id.String()})
	return n
}

// breakpadID returns the build ID as Breakpad writes it: the first 16 bytes as a GUID, whose first three numbers are
// little-endian, and an age of 0.
func breakpadID(id []byte) string {
	var b [16]byte
	copy(b[:], id)
	slices.Reverse(b[0:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return fmt.Sprintf("%X0", b[:])
}

// shared returns the tables that threads share.
func (f *firefox) shared() any {
	type sources struct {
		Length int       `json:"length"`
		UUID   []*string `json:"uuid"`
		File   indexes   `json:"filename"`
	}
	n := len(f.sources.list)
	return struct {
		Strings []string `json:"stringArray"`
		Sources sources  `json:"sources"`
	}{f.strings.list, sources{n, make([]*string, n), f.sources.list}}
}

// firefoxThread is a thread in the form of the file.
type firefoxThread struct {
	ProcessType    string           `json:"processType"`
	ProcessStart   int              `json:"processStartupTime"`
	ProcessEnd     *int             `json:"processShutdownTime"`
	Registered     int              `json:"registerTime"`
	Unregistered   *int             `json:"unregisterTime"`
	Paused         []int            `json:"pausedRanges"`
	MarkersVisible bool             `json:"showMarkersInTimeline"`
	Name           string           `json:"name"`
	Main           bool             `json:"isMainThread"`
	ProcessName    string           `json:"processName"`
	PID            string           `json:"pid"`
	TID            string           `json:"tid"`
	Stacks         firefoxStacks    `json:"stackTable"`
	Frames         firefoxFrames    `json:"frameTable"`
	Functions      firefoxFunctions `json:"funcTable"`
	Resources      firefoxResources `json:"resourceTable"`
	Symbols        firefoxSymbols   `json:"nativeSymbols"`
}

type firefoxStacks struct {
	Length int     `json:"length"`
	Frame  indexes `json:"frame"`
	Prefix indexes `json:"prefix"`
}

type firefoxFrames struct {
	Length      int     `json:"length"`
	Address     []int64 `json:"address"`
	Depth       indexes `json:"inlineDepth"`
	Category    indexes `json:"category"`
	Subcategory indexes `json:"subcategory"`
	Function    indexes `json:"func"`
	Symbol      indexes `json:"nativeSymbol"`
	Window      indexes `json:"innerWindowID"`
	Line        indexes `json:"line"`
	Column      indexes `json:"column"`
}

type firefoxFunctions struct {
	Length   int     `json:"length"`
	Name     indexes `json:"name"`
	JS       []bool  `json:"isJS"`
	ForJS    []bool  `json:"relevantForJS"`
	Resource []int32 `json:"resource"`
	Source   indexes `json:"source"`
	Line     indexes `json:"lineNumber"`
	Column   indexes `json:"columnNumber"`
}

type firefoxResources struct {
	Length int     `json:"length"`
	Lib    indexes `json:"lib"`
	Name   indexes `json:"name"`
	Host   indexes `json:"host"`
	Type   indexes `json:"type"`
}

type firefoxSymbols struct {
	Length  int      `json:"length"`
	Lib     indexes  `json:"libIndex"`
	Address []uint64 `json:"address"`
	Name    indexes  `json:"name"`
	Size    indexes  `json:"functionSize"`
}

// writeThread writes a thread. number is the position among all threads.
func (f *firefox) writeThread(out *bufio.Writer, t *thread, number int, all []*thread) {
	tables := newFirefoxTables(f, t)
	out.WriteString(`{"samples":`)
	f.writeSamples(out, t, tables)
	out.WriteString(`,"markers":`)
	f.writeMarkers(out, t, tables)
	out.WriteByte(',')
	out.Write(encodedTimeline(f.describe(t, number, all, tables))[1:]) // without the brace
}

// describe returns a thread in the form of the file, without samples and markers, whose stacks are in tables.
func (f *firefox) describe(t *thread, number int, all []*thread, tables *firefoxTables) firefoxThread {
	one := firefoxThread{ProcessType: "default", Paused: []int{}, MarkersVisible: t.marks(), Name: t.comm,
		PID: strconv.Itoa(int(t.pid)), TID: strconv.Itoa(int(t.tid)),
		ProcessName: cmp.Or(t.recording.comms[t.pid], t.comm)}
	if t.inRecording > 0 { // the processes are others
		one.PID += "." + strconv.Itoa(t.inRecording)
	}
	if severalEvents(all) {
		one.Name += " (" + t.name + ")"
	}
	if t.number > 0 {
		one.TID += "." + strconv.Itoa(t.number)
	}
	first := slices.IndexFunc(all, func(o *thread) bool { return o.recording == t.recording && o.pid == t.pid })
	one.Main = first == number
	tables.fill(&one)
	return one
}

// severalEvents reports whether threads contain samples of several events.
func severalEvents(all []*thread) bool {
	return slices.ContainsFunc(all, func(t *thread) bool { return t.name != all[0].name })
}

// firefoxColumns writes columns of a thread's samples, which are too many to encode them at once.
type firefoxColumns struct {
	profile *firefox
	out     *bufio.Writer
	thread  *thread
	text    []byte // reused
}

// write writes the next column: a value for each of the thread's samples, or none without any of them.
func (c *firefoxColumns) write(name string, appendValue func(b []byte, s *sample) []byte) {
	fmt.Fprintf(c.out, `,%q:[`, name)
	if appendValue != nil {
		for n, i := range c.thread.samples {
			b := c.text[:0]
			if n > 0 {
				b = append(b, ',')
			}
			c.text = appendValue(b, &c.profile.set.samples[i])
			c.out.Write(c.text)
		}
	}
	c.out.WriteByte(']')
}

// time returns a function for a column of times.
func (c *firefoxColumns) time(of func(*sample) uint64) func(b []byte, s *sample) []byte {
	return func(b []byte, s *sample) []byte {
		return appendMillis(b, c.profile.clock.since(c.thread.recording, of(s)))
	}
}

// writeSamples writes the samples of a thread.
func (f *firefox) writeSamples(out *bufio.Writer, t *thread, tables *firefoxTables) {
	c := &firefoxColumns{profile: f, out: out, thread: t}
	period := func(b []byte, s *sample) []byte { return strconv.AppendUint(b, s.period, 10) }
	weight, weightType := period, "samples"
	switch t.unit {
	case "nanoseconds":
		weightType = "tracing-ms"
		weight = func(b []byte, s *sample) []byte { return appendMillis(b, int64(s.period)) }
	case "bytes":
		weightType = "bytes"
	}
	fmt.Fprintf(out, `{"length":%d,"weightType":%q`, len(t.samples), weightType)
	c.write("stack", func(b []byte, s *sample) []byte { return appendIndex(b, tables.stack(s.stack)) })
	c.write("time", c.time(func(s *sample) uint64 { return s.time }))
	c.write("weight", weight)
	if t.event.clock && f.set.Weight == "" {
		c.write("threadCPUDelta", period) // the thread ran for as long since the previous sample
	}
	out.WriteByte('}')
}

// writeMarkers writes the markers of a thread.
func (f *firefox) writeMarkers(out *bufio.Writer, t *thread, tables *firefoxTables) {
	c := &firefoxColumns{profile: f, out: out, thread: t}
	column := func(name string, appendValue func([]byte, *sample) []byte) {
		if !t.marks() {
			appendValue = nil
		}
		c.write(name, appendValue)
	}
	n := 0
	if t.marks() {
		n = len(t.samples)
	}
	fmt.Fprintf(out, `{"length":%d`, n)
	isInterval := func(s *sample) bool { return s.start < s.end || t.wait || t.duration != nil }
	end := c.time(func(s *sample) uint64 { return s.end })
	column("name", func(b []byte, s *sample) []byte { return appendIndex(b, f.string(s.title)) })
	column("category", func(b []byte, _ *sample) []byte { return appendIndex(b, int32(session.KindUnknown)) })
	column("startTime", c.time(func(s *sample) uint64 { return s.start }))
	column("endTime", func(b []byte, s *sample) []byte {
		if !isInterval(s) {
			return append(b, "null"...)
		}
		return end(b, s)
	})
	column("phase", func(b []byte, s *sample) []byte {
		const instant, interval = 0, 1
		if !isInterval(s) {
			return appendIndex(b, instant)
		}
		return appendIndex(b, interval)
	})
	column("data", func(b []byte, s *sample) []byte { return f.appendMarker(b, t, s, tables) })
	out.WriteByte('}')
}

// appendMarker appends the data of a marker.
func (f *firefox) appendMarker(b []byte, t *thread, s *sample, tables *firefoxTables) []byte {
	b = append(appendQuoted(append(b, `{"type":`...), t.name), s.fields...)
	if t.marksCPU() {
		b = strconv.AppendUint(append(b, `,"cpu":`...), uint64(s.cpu), 10)
	}
	if stack := tables.stack(s.stack); stack >= 0 {
		b = appendMillis(append(b, `,"cause":{"time":`...), f.clock.since(t.recording, s.time))
		b = append(appendIndex(append(b, `,"stack":`...), stack), '}')
	}
	return append(b, '}')
}

// firefoxTables are the tables of stacks and functions of a thread.
type firefoxTables struct {
	profile   *firefox
	arch      string
	stacks    *numbered[firefoxStack]
	frames    *numbered[int32] // indexes in set.frames
	functions *numbered[int32] // indexes in set.functions
	resources *numbered[int32] // indexes in firefox.libs
	symbols   *numbered[firefoxSymbol]
	known     map[int32]int32 // stacks of the set
	libOf     map[int32]int32 // by function: the file, -1 for none
}

type firefoxStack struct{ prefix, frame int32 }

type firefoxSymbol struct {
	lib     int32
	address uint64
	name    int32
}

func newFirefoxTables(f *firefox, t *thread) *firefoxTables {
	return &firefoxTables{profile: f, arch: t.recording.file.String(format.FeatureArch),
		stacks: newNumbered[firefoxStack](), frames: newNumbered[int32](), functions: newNumbered[int32](),
		resources: newNumbered[int32](), symbols: newNumbered[firefoxSymbol](), known: map[int32]int32{},
		libOf: map[int32]int32{}}
}

// stack returns the thread's index of a stack of the set, -1 for an empty one.
func (t *firefoxTables) stack(stack int32) int32 {
	id, ok := t.known[stack]
	if ok {
		return id
	}
	id = -1
	for _, n := range t.profile.set.stacks[stack] {
		frame, _ := t.frames.id(n)
		t.function(n)
		id, _ = t.stacks.id(firefoxStack{id, frame})
	}
	t.known[stack] = id
	return id
}

// function adds the function of a frame, with the file.
func (t *firefoxTables) function(frame int32) {
	at := &t.profile.set.frames[frame]
	if _, added := t.functions.id(at.function); !added {
		return
	}
	lib := int32(-1)
	if at.mapping >= 0 {
		lib = t.profile.lib(&t.profile.set.mappings[at.mapping], t.arch)
		t.resources.id(lib)
	}
	t.libOf[at.function] = lib
}

// fill writes the tables to a thread.
func (t *firefoxTables) fill(one *firefoxThread) {
	stacks := &one.Stacks
	for _, s := range t.stacks.list {
		stacks.Frame, stacks.Prefix = append(stacks.Frame, s.frame), append(stacks.Prefix, s.prefix)
	}
	stacks.Length = len(t.stacks.list)
	t.fillFrames(&one.Frames)
	t.fillFunctions(&one.Functions)
	for _, lib := range t.resources.list {
		r := &one.Resources
		r.Lib, r.Name = append(r.Lib, lib), append(r.Name, t.profile.string(t.profile.libs.list[lib].Name))
	}
	const library = 1 // the type of a resource
	n := len(t.resources.list)
	one.Resources.Length, one.Resources.Host, one.Resources.Type = n, repeat(n, int32(-1)), repeat(n, int32(library))
	one.Symbols.Address = []uint64{}
	for _, s := range t.symbols.list {
		to := &one.Symbols
		to.Lib, to.Address, to.Name = append(to.Lib, s.lib), append(to.Address, s.address), append(to.Name, s.name)
	}
	n = len(t.symbols.list)
	one.Symbols.Length, one.Symbols.Size = n, repeat(n, int32(-1))
}

func (t *firefoxTables) fillFrames(to *firefoxFrames) {
	n := len(t.frames.list)
	to.Length, to.Window, to.Column = n, repeat(n, int32(0)), repeat(n, int32(-1))
	to.Address = make([]int64, 0, n)
	for _, i := range t.frames.list {
		f := &t.profile.set.frames[i]
		fn := &t.profile.set.functions[f.function]
		function, _ := t.functions.id(f.function)
		addr := int64(-1)
		if f.mapping >= 0 {
			addr = int64(f.addr)
		}
		to.Address = append(to.Address, addr)
		to.Depth = append(to.Depth, int32(f.depth))
		to.Category = append(to.Category, int32(fn.kind))
		to.Subcategory = append(to.Subcategory, int32(min(f.depth, 1)))
		to.Function = append(to.Function, function)
		to.Symbol = append(to.Symbol, t.symbol(f, fn))
		line := int32(-1)
		if f.line > 0 {
			line = int32(f.line)
		}
		to.Line = append(to.Line, line)
	}
}

// symbol returns the index of a frame's symbol, -1 without a symbol or for inlined ones.
func (t *firefoxTables) symbol(f *timelineFrame, fn *function) int32 {
	if f.start == 0 || f.mapping < 0 || f.depth > 0 {
		return -1
	}
	p := t.profile
	id, _ := t.symbols.id(firefoxSymbol{p.lib(&p.set.mappings[f.mapping], t.arch), f.start, p.string(fn.name)})
	return id
}

func (t *firefoxTables) fillFunctions(to *firefoxFunctions) {
	n := len(t.functions.list)
	to.Length, to.JS, to.ForJS = n, make([]bool, n), make([]bool, n)
	to.Column = repeat(n, int32(-1))
	to.Resource = []int32{}
	for _, i := range t.functions.list {
		f := &t.profile.set.functions[i]
		to.Name = append(to.Name, t.profile.string(f.name))
		resource := int32(-1)
		if lib := t.libOf[i]; lib >= 0 {
			resource, _ = t.resources.id(lib)
		}
		to.Resource = append(to.Resource, resource)
		source, line := int32(-1), int32(-1)
		if f.file != "" {
			source, _ = t.profile.sources.id(t.profile.string(f.file))
		}
		if f.line > 0 {
			line = int32(f.line)
		}
		to.Source, to.Line = append(to.Source, source), append(to.Line, line)
	}
}

// firefoxLegacy is the form of profiles that Speedscope reads. Rows of samples are a stack and a time in ms, rows of
// stacks the caller's stack and a frame, rows of frames a string: the function and the file.
type firefoxLegacy struct {
	Name    string          `json:"name"`
	Samples firefoxRows     `json:"samples"`
	Stacks  firefoxRows     `json:"stackTable"`
	Frames  firefoxRows     `json:"frameTable"`
	Strings json.RawMessage `json:"stringTable"`
}

type firefoxRows struct {
	Data [][]any `json:"data"`
}

func (r *firefoxRows) add(values ...any) { r.Data = append(r.Data, values) }

// legacy returns the sums of the periods of the first event's stacks. Each lasts until the time of the next
// one: the sum in ms of periods in ns, or else as many ms as the sum is.
func (f *firefox) legacy(threads []*thread) any {
	sums := make([]uint64, len(f.set.stacks))
	for _, t := range threads {
		if t.name != threads[0].name {
			continue
		}
		for _, i := range t.samples {
			sums[f.set.samples[i].stack] += f.set.samples[i].period
		}
	}
	unit := int64(1e6)
	if threads[0].unit == "nanoseconds" {
		unit = 1
	}
	one := firefoxLegacy{Name: "GeckoMain"}
	stacks, names := newNumbered[firefoxStack](), newNumbered[string]()
	at := int64(0)
	for i, sum := range sums {
		if sum == 0 {
			continue
		}
		stack := int32(-1)
		for _, n := range f.set.stacks[i] {
			fn := &f.set.functions[f.set.frames[n].function]
			name, _ := names.id(fn.name + " (" + strings.ReplaceAll(fn.source(), " (", "(") + ")")
			stack, _ = stacks.id(firefoxStack{stack, name})
		}
		one.Samples.add(timelineOrNull(stack), json.RawMessage(appendMillis(nil, at)))
		at += int64(sum) * unit
	}
	one.Samples.add(nil, json.RawMessage(appendMillis(nil, at)))
	for _, s := range stacks.list {
		one.Stacks.add(timelineOrNull(s.prefix), s.frame)
	}
	for i := range names.list {
		one.Frames.add(i)
	}
	one.Strings = encodedTimeline(names.list)
	return map[string]any{"threads": []firefoxLegacy{one}}
}

// timelineOrNull returns an index, nil for -1.
func timelineOrNull(index int32) any {
	if index < 0 {
		return nil
	}
	return index
}
