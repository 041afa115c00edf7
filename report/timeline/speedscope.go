package timeline

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/session"
)

// ErrNoSamples: the recordings have no samples.
var ErrNoSamples = errors.New("no samples")

// Speedscope collects samples for a file that https://www.speedscope.app opens: a profile for
// each event of each thread, with its samples in the order of time. The weights of samples are
// their periods, so that Speedscope's totals are those of gperf report.
type Speedscope struct {
	Options

	recordings int // that were added
	frames     []speedscopeFrame
	frameIDs   map[speedscopeFrame]int32
	known      map[session.ChainFrame][]int32 // indexes of a frame's functions, innermost first
	stacks     [][]int32                      // of indexes, outermost first
	stackIDs   map[stackKey]int32
	profiles   map[threadEvent]*speedscopeProfile
}

// speedscopeFrame is a function, in the form of the file.
type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // of the source, if unknown the DSO
	Line int    `json:"line,omitempty"` // of the function's declaration
}

// stackKey identifies a stack as session.ChainKey does.
type stackKey struct {
	leaf   *session.Frame // nil if there is a callchain
	called bool
	chain  session.ChainKey
}

type threadEvent struct {
	recording int
	event     int
	pid, tid  int32
}

// speedscopeProfile is the samples of a thread.
type speedscopeProfile struct {
	threadEvent
	name, comm string // of event and thread
	unit       string
	stacks     []int32  // of its samples, in Speedscope.stacks
	weights    []uint64 // of its samples
	total      uint64
}

// Add collects the samples of a recording. The result counts the skipped parts of its file.
func (p *Speedscope) Add(s *session.Session) (format.Skipped, error) {
	if p.profiles == nil {
		p.frameIDs, p.known = map[speedscopeFrame]int32{}, map[session.ChainFrame][]int32{}
		p.stackIDs, p.profiles = map[stackKey]int32{}, map[threadEvent]*speedscopeProfile{}
	}
	p.recordings++
	return s.Walk(session.WalkOptions{Names: true, KeepChains: true}, func(b *session.Batch) error {
		lookUp(p.Options, b.Samples, p.known)
		for i := range b.Samples {
			p.sample(s.File, &b.Samples[i])
		}
		b.Release()
		return nil
	})
}

// sample adds a sample to its thread's profile.
func (p *Speedscope) sample(f *format.File, s *session.Sample) {
	k := threadEvent{p.recordings, s.Event, s.PID, s.TID}
	t := p.profiles[k]
	if t == nil {
		t = &speedscopeProfile{threadEvent: k, name: f.EventName(s.Event), unit: unitOf(f, s.Event)}
		p.profiles[k] = t
	}
	t.comm = s.Comm // the last name that the thread gave itself
	t.stacks = append(t.stacks, p.stack(s))
	t.weights = append(t.weights, s.Period)
	t.total += s.Period
}

// unitOf returns the unit of an event's periods in Speedscope's words.
func unitOf(f *format.File, event int) string {
	if session.EventUnit(f, event) == "nanoseconds" {
		return "nanoseconds"
	}
	return "none"
}

// stack returns the index of a sample's stack.
func (p *Speedscope) stack(s *session.Sample) int32 {
	k := stackKey{chain: s.Chain.Key(), called: s.Called}
	if s.Chain.Len() == 0 {
		k.leaf = s.Leaf
	}
	id, ok := p.stackIDs[k]
	if !ok {
		var stack []int32 // innermost first
		for f := range p.stackOf(s) {
			stack = append(stack, p.functions(f)...)
		}
		slices.Reverse(stack)
		id = int32(len(p.stacks))
		p.stacks, p.stackIDs[k] = append(p.stacks, stack), id
	}
	return id
}

// functions returns the indexes of a frame's functions, innermost first.
func (p *Speedscope) functions(f session.ChainFrame) []int32 {
	ids, ok := p.known[f]
	if ok {
		return ids
	}
	for _, fn := range f.Functions(!p.NoInline) {
		ids = append(ids, p.frame(speedscopeFrame{fn.Name, cmp.Or(fn.File, f.Frame.DSO()), fn.Start}))
	}
	if len(ids) == 0 {
		name := f.Frame.Symbol()
		if m := f.Frame.Map; m != nil && name == "[unknown]" {
			name = "[" + strings.Trim(m.DSO.ShortName(), "[]") + "]"
		}
		ids = append(ids, p.frame(speedscopeFrame{name, f.Frame.DSO(), 0}))
	}
	p.known[f] = ids
	return ids
}

// frame returns the index of a function.
func (p *Speedscope) frame(f speedscopeFrame) int32 {
	id, ok := p.frameIDs[f]
	if !ok {
		id = int32(len(p.frames))
		p.frames, p.frameIDs[f] = append(p.frames, f), id
	}
	return id
}

// Write writes the file. Profiles with the largest sum of periods come first. Without samples it
// returns ErrNoSamples.
func (p *Speedscope) Write(w io.Writer) error {
	if len(p.profiles) == 0 {
		return ErrNoSamples
	}
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(`{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"gperf",` +
		`"shared":{"frames":`)
	out.Write(encoded(p.frames))
	out.WriteString(`},"profiles":[`)
	for i, t := range p.ordered() {
		if i > 0 {
			out.WriteByte(',')
		}
		p.writeProfile(out, t)
	}
	out.WriteString("]}\n")
	return out.Flush()
}

// ordered returns the profiles in the order of the file.
func (p *Speedscope) ordered() []*speedscopeProfile {
	return slices.SortedFunc(maps.Values(p.profiles), func(a, b *speedscopeProfile) int {
		return cmp.Or(cmp.Compare(a.recording, b.recording), cmp.Compare(a.event, b.event),
			cmp.Compare(b.total, a.total), cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
	})
}

func (p *Speedscope) writeProfile(out *bufio.Writer, t *speedscopeProfile) {
	name := fmt.Sprintf("%s %s %d", t.name, t.comm, t.tid)
	if t.tid != t.pid {
		name = fmt.Sprintf("%s %s %d/%d", t.name, t.comm, t.pid, t.tid)
	}
	fmt.Fprintf(out, `{"type":"sampled","name":%s,"unit":%q,"startValue":0,"endValue":%d,"samples":[`,
		encoded(name), t.unit, t.total)
	var b []byte
	for i, id := range t.stacks {
		b = b[:0]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for n, f := range p.stacks[id] {
			if n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(f), 10)
		}
		out.Write(append(b, ']'))
	}
	out.WriteString(`],"weights":[`)
	for i, weight := range t.weights {
		if b = b[:0]; i > 0 {
			b = append(b, ',')
		}
		out.Write(strconv.AppendUint(b, weight, 10))
	}
	out.WriteString("]}")
}
