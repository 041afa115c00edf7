package export

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"gperf/format"
	"gperf/internal/inspect"
	"gperf/internal/intern"
	"gperf/internal/session"
	"gperf/report/key"
)

// Pprof writes a compressed profile in pprof's format. The sample types are SampleTypes of the events with samples:
// the values are the sums of periods that Text shows, and the first event is the default. A sample has the labels
// comm, pid, tid and cpu if Set distinguishes them, and those of Set.By and Fields. Functions have their demangled
// names, and the names of the symbol table as system names; those without names have their DSO and the vaddr of their
// start (openssl+0x1a2b0). Processes that run the same program share its
// mapping, at the addresses of the first of them. The values of a baseline, scaled, are
// subtracted, as pprof -base does. Without samples it returns ErrNoSamples.
func (c *StackSet) Pprof(w io.Writer) error {
	if len(c.tallies.List) == 0 {
		return ErrNoSamples
	}
	p := profiler{set: c, index: map[int32]int{}, mappings: map[*session.Map]*profile.Mapping{},
		locations: map[*session.Frame]*profile.Location{}, functions: map[functionKey]*profile.Function{},
		subjects: map[*subject]*labelSet{}, labels: map[string]*labelSet{}}
	p.describe()
	session.LookUpCalls(allFrames(c))
	p.samples = make([]labeled, 0, len(c.tallies.List))
	for _, t := range c.tallies.List {
		p.add(t)
	}
	p.mainFirst()
	whole, err := p.merged()
	if err != nil {
		return err
	}
	return whole.Write(w)
}

// merged returns the profile with one location for equal places of several processes, and one sample for equal stacks
// with equal labels. The library merges the locations alone: it would copy the labels of each sample.
func (p *profiler) merged() (*profile.Profile, error) {
	for _, l := range p.Location {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: p.one(),
			NumLabel: map[string][]int64{"location": {int64(l.ID)}}})
	}
	MakeUTF8(&p.Profile)
	whole, err := profile.Merge([]*profile.Profile{&p.Profile})
	if err != nil {
		return nil, err
	}
	merged := whole.Sample
	whole.Sample = nil
	var index intern.Table
	var kept []*labeled
	for i := range p.samples {
		s := &p.samples[i]
		for i, l := range s.Location {
			s.Location[i] = merged[l.ID-1].Location[0]
		}
		n, added := index.Add(s.hash(), func(n int32) bool {
			return kept[n].labels == s.labels && slices.Equal(kept[n].Location, s.Location)
		})
		if added {
			kept = append(kept, s)
			continue
		}
		for i, v := range s.Value {
			kept[n].Value[i] += v
		}
	}
	for _, s := range kept {
		if slices.ContainsFunc(s.Value, func(v int64) bool { return v != 0 }) {
			whole.Sample = append(whole.Sample, &s.Sample)
		}
	}
	if len(whole.Sample) < len(kept) { // of a baseline and the others, which are equal: their functions may be unused
		whole = whole.Compact()
	}
	return whole, nil
}

// one returns the values of one sample, whose period does not matter.
func (p *profiler) one() []int64 {
	v := make([]int64, len(p.SampleType))
	v[0] = 1
	return v
}

// labeled is a sample with labels, which it shares with others.
type labeled struct {
	profile.Sample
	labels *labelSet
}

// hash returns the hash of the labels and locations.
func (s *labeled) hash() uint32 {
	const prime = 1099511628211 // of FNV-1a
	h := uint64(s.labels.number)
	for _, l := range s.Location {
		h = (h ^ l.ID) * prime
		h ^= h >> 29
	}
	return uint32(h ^ h>>32)
}

// MakeUTF8 replaces bytes of a profile's texts that are not UTF-8 by U+FFFD: readers of protocol buffers refuse the
// whole profile otherwise.
func MakeUTF8(p *profile.Profile) {
	valid := func(texts ...*string) {
		for _, s := range texts {
			*s = validUTF8(*s)
		}
	}
	for i := range p.Comments {
		valid(&p.Comments[i])
	}
	valid(&p.DefaultSampleType)
	for _, t := range p.SampleType {
		valid(&t.Type, &t.Unit)
	}
	for _, m := range p.Mapping {
		valid(&m.File)
	}
	for _, f := range p.Function {
		valid(&f.Name, &f.SystemName, &f.Filename)
	}
	for _, s := range p.Sample {
		for _, texts := range s.Label {
			for i := range texts {
				valid(&texts[i])
			}
		}
	}
}

func validUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// profiler builds a profile.
type profiler struct {
	set *StackSet
	profile.Profile
	stack     []*profile.Location // of the current sample
	samples   []labeled           // those of Profile.Sample
	subjects  map[*subject]*labelSet
	labels    map[string]*labelSet // by their text
	index     map[int32]int        // of events in SampleType
	mappings  map[*session.Map]*profile.Mapping
	weights   []uint64 // samples with a frame in the mapping, by the mapping's index
	locations map[*session.Frame]*profile.Location
	functions map[functionKey]*profile.Function
}

type functionKey struct {
	name, raw, file string
	start           int
}

// describe sets the sample types and the period type.
func (p *profiler) describe() {
	p.SampleType = SampleTypes(p.set.measures())
	for i := range p.set.events {
		if e := &p.set.events[i]; e.samples+e.base.samples > 0 {
			p.index[int32(i)] = len(p.index) + 1
		}
	}
	used := func(e stackEvent) bool { return e.samples+e.base.samples > 0 }
	first := &p.set.events[slices.IndexFunc(p.set.events, used)]
	p.DefaultSampleType, p.PeriodType, p.Period = p.SampleType[1].Type, p.SampleType[1], int64(first.period)
	if p.Period == 0 {
		p.Period = int64((first.total + first.base.total) / (first.samples + first.base.samples))
	}
	if !p.set.began.IsZero() {
		p.TimeNanos = p.set.began.UnixNano()
	}
	p.DurationNanos = int64(p.set.lasted / time.Nanosecond)
	p.Comments = append(p.Comments, comments(slices.Concat(p.set.bases, p.set.files))...)
}

// Measure is the quantity that an event measures.
type Measure struct {
	Event, Unit string
	Clock       bool // CPU time, in nanoseconds
}

// SampleTypes returns pprof's sample types for events: first samples/count, then a type per event. The type of the
// first clock is cpu/nanoseconds, as in Go's profiles, because programs such as go build -pgo look for these names;
// others get the event's name.
func SampleTypes(events []Measure) []*profile.ValueType {
	types := []*profile.ValueType{{Type: "samples", Unit: "count"}}
	clocks := 0
	for _, e := range events {
		name := e.Event
		if e.Clock {
			if clocks++; clocks == 1 {
				name = "cpu"
			}
		}
		types = append(types, &profile.ValueType{Type: name, Unit: e.Unit})
	}
	return types
}

// facts describe a recording.
type facts struct {
	cmdline string
	about   []string // lines
}

func factsOf(f *format.File) facts {
	line := strings.Join(f.Cmdline(), " ")
	var about []string
	if line != "" {
		about = append(about, "cmdline: "+line)
	}
	return facts{line, append(about, inspect.Facts(f)...)}
}

// maxAbout is how many recordings a result describes.
const maxAbout = 16

// comments returns the facts about recordings.
func comments(recordings []facts) (l []string) {
	for _, r := range recordings[:min(len(recordings), maxAbout)] {
		l = append(l, r.about...)
	}
	if n := len(recordings) - maxAbout; n > 0 {
		l = append(l, fmt.Sprintf("and %d more recordings", n))
	}
	return l
}

func (p *profiler) add(t *tally) {
	s := labeled{Sample: profile.Sample{Value: make([]int64, len(p.SampleType))}, labels: p.labelsOf(t.Of)}
	s.Label, s.NumLabel, s.NumUnit = s.labels.text, s.labels.numbers, s.labels.units
	s.Value[0], s.Value[p.index[t.Of.event]] = int64(t.Sum.samples), int64(min(t.Sum.period, math.MaxInt64))
	if e := &p.set.events[t.Of.event]; t.Of.base {
		s.Value[0] = -int64(scaled(t.Sum.samples, e.base.samples, e.samples))
		s.Value[p.index[t.Of.event]] = -int64(scaled(t.Sum.period, e.base.total, e.total))
	}
	p.stack = p.stack[:0]
	for f := range p.set.stackOf(t) {
		l := p.location(f)
		p.stack = append(p.stack, l)
		if l.Mapping != nil {
			p.weights[l.Mapping.ID-1] += t.Sum.samples
		}
	}
	s.Location = slices.Clone(p.stack)
	p.samples = append(p.samples, s)
}

// labelSet is those of the samples of equal subjects.
type labelSet struct {
	number  uint32
	text    map[string][]string
	numbers map[string][]int64
	units   map[string][]string
}

func (p *profiler) labelsOf(of *subject) *labelSet {
	known := p.subjects[of]
	if known != nil {
		return known
	}
	l := labelSet{text: map[string][]string{"comm": {validUTF8(of.comm)}}, numbers: map[string][]int64{},
		units: map[string][]string{}}
	if of.base {
		l.text["pprof::base"] = []string{"true"}
	}
	for _, n := range [...]struct {
		name  string
		value int32
		has   bool
	}{{"pid", of.pid, p.set.Processes}, {"tid", of.tid, p.set.Threads}, {"cpu", of.cpu, of.cpu >= 0}} {
		if n.has {
			l.numbers[n.name] = []int64{int64(n.value)}
		}
	}
	l.add(of.fields.Values)
	l.add(of.group.Values)
	id := fmt.Sprintf("%q %v %q", l.text, l.numbers, l.units)
	known = p.labels[id]
	if known == nil {
		l.number, known = uint32(len(p.labels)), &l
		p.labels[id] = known
	}
	p.subjects[of] = known
	return known
}

// add adds labels. Units come from session.Unit.
func (l *labelSet) add(values []key.Value) {
	for _, v := range values {
		switch {
		case v.Text == key.Missing:
		case v.Numeric:
			l.numbers[v.Key] = []int64{v.Number}
			if unit := session.Unit(v.Key); unit != "count" {
				l.units[v.Key] = []string{unit}
			}
		case v.Text != "":
			l.text[v.Key] = []string{validUTF8(v.Text)}
		}
	}
}

// location returns the location of a frame. pprof's addresses of callers lie
// within the call instruction, not after it.
func (p *profiler) location(f *session.Frame) *profile.Location {
	l := p.locations[f]
	if l != nil {
		return l
	}
	l = &profile.Location{ID: uint64(len(p.Location) + 1), Address: f.IP, Mapping: p.mapping(f)}
	if f.Return {
		l.Address--
	}
	p.locations[f] = l
	p.Location = append(p.Location, l)
	for _, fn := range f.Functions(!p.set.NoInline) {
		l.Line = append(l.Line, profile.Line{Function: p.function(fn), Line: int64(fn.Line)})
		if m := l.Mapping; m != nil {
			m.HasFunctions = true
			m.HasFilenames = m.HasFilenames || fn.File != ""
			m.HasLineNumbers = m.HasLineNumbers || fn.Line > 0
			m.HasInlineFrames = m.HasInlineFrames || fn.Inlined
		}
	}
	if start := f.StartName(); len(l.Line) == 0 && start != "" {
		l.Line = []profile.Line{{Function: p.function(session.Function{Name: start, Raw: start})}}
	}
	return l
}

func (p *profiler) function(fn session.Function) *profile.Function {
	k := functionKey{fn.Name, fn.Raw, fn.File, fn.Start}
	f := p.functions[k]
	if f == nil {
		f = &profile.Function{ID: uint64(len(p.Function) + 1), Name: fn.Name, SystemName: fn.Raw, Filename: fn.File,
			StartLine: int64(fn.Start)}
		p.functions[k] = f
		p.Function = append(p.Function, f)
	}
	return f
}

// mapping returns the mapping in which the frame is, nil for none.
func (p *profiler) mapping(f *session.Frame) *profile.Mapping {
	if f.Map == nil {
		return nil
	}
	m := p.mappings[f.Map]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(p.Mapping) + 1), Start: f.Map.Start, Limit: f.Map.End,
			Offset: f.Map.Pgoff, File: f.DSO()}
		if id := f.Map.DSO.BuildID; !id.IsZero() {
			m.BuildID = id.String()
		}
		p.mappings[f.Map] = m
		p.Mapping = append(p.Mapping, m)
		p.weights = append(p.weights, 0)
	}
	return m
}

// mainFirst moves the program with most samples to the front: pprof treats the
// first mapping as the profiled program.
func (p *profiler) mainFirst() {
	first, most := -1, uint64(0)
	for i, m := range p.Mapping {
		program := strings.HasPrefix(m.File, "/") && !strings.Contains(m.File, ".so")
		if program && p.weights[i] > most {
			first, most = i, p.weights[i]
		}
	}
	if first > 0 {
		p.Mapping[0], p.Mapping[first] = p.Mapping[first], p.Mapping[0]
	}
}
