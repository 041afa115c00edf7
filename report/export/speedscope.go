package export

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// writeSpeedscope writes a file that https://www.speedscope.app opens: a profile for each event of each thread, with
// its samples in the order of time. The weights of samples are the periods, so that Speedscope's totals equal the
// totals of gperf report. For events whose periods are in ns, the axis is the time: samples end when they were taken,
// spans when they ended, or later where they overlap. For others, the axis is the sum of the periods.
func (p *set) writeSpeedscope(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<16)
	out.WriteString(`{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"gperf",` +
		`"shared":{"frames":`)
	s := speedscope{set: p, frames: make([]int32, len(p.functions))}
	list := s.merge()
	out.Write(encodedTimeline(list))
	out.WriteString(`},"profiles":[`)
	for i, t := range p.ordered() {
		if i > 0 {
			out.WriteByte(',')
		}
		s.write(out, t)
	}
	out.WriteString("]}\n")
	return out.Flush()
}

// speedscope writes the profiles of a file.
type speedscope struct {
	set    *set
	frames []int32 // by function: indexes in the file
	open   []int32 // the functions of the current stack, indexes in the file
	events int     // number of events written of the current profile
	text   []byte  // reused
}

// speedscopeFrame is a function, in the form of the file.
type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"` // of the source, if unknown the DSO
	Line int    `json:"line,omitempty"` // of the function's declaration
}

// merge returns the functions that the file distinguishes.
func (s *speedscope) merge() (list []speedscopeFrame) {
	ids := map[speedscopeFrame]int32{}
	for i, f := range s.set.functions {
		one := speedscopeFrame{f.name, f.source(), f.line}
		id, ok := ids[one]
		if !ok {
			id = int32(len(list))
			list, ids[one] = append(list, one), id
		}
		s.frames[i] = id
	}
	return list
}

// source returns the source file of a function, or else the DSO.
func (f *function) source() string {
	if f.file != "" {
		return f.file
	}
	return f.dso
}

// write writes the profile of a thread.
func (s *speedscope) write(out *bufio.Writer, t *thread) {
	name := fmt.Sprintf("%s %s %d", t.name, t.comm, t.tid)
	if t.tid != t.pid {
		name = fmt.Sprintf("%s %s %d/%d", t.name, t.comm, t.pid, t.tid)
	}
	timed, unit := t.unit == "nanoseconds", "none"
	if t.unit != "count" {
		unit = t.unit
	}
	fmt.Fprintf(out, `{"type":"evented","name":%s,"unit":%q,"startValue":0,"events":[`, encodedTimeline(name), unit)
	at := uint64(0) // until where the profile is written
	s.events = 0
	for _, i := range t.samples {
		one := &s.set.samples[i]
		if timed {
			if from := one.end - min(one.period, one.end); from > t.recording.first+at {
				s.leave(out, 0, at)
				at = from - t.recording.first
			}
		}
		s.enter(out, one.stack, at)
		at += one.period
	}
	s.leave(out, 0, at)
	fmt.Fprintf(out, `],"endValue":%d}`, at)
}

// enter changes the current stack.
func (s *speedscope) enter(out *bufio.Writer, stack int32, at uint64) {
	list := s.set.stacks[stack]
	same := 0
	for same < min(len(list), len(s.open)) && s.frames[s.set.frames[list[same]].function] == s.open[same] {
		same++
	}
	s.leave(out, same, at)
	for _, f := range list[same:] {
		id := s.frames[s.set.frames[f].function]
		s.event(out, 'O', id, at)
		s.open = append(s.open, id)
	}
}

// leave leaves the functions of the current stack from a depth on.
func (s *speedscope) leave(out *bufio.Writer, depth int, at uint64) {
	for len(s.open) > depth {
		last := len(s.open) - 1
		s.event(out, 'C', s.open[last], at)
		s.open = s.open[:last]
	}
}

func (s *speedscope) event(out *bufio.Writer, typ byte, frame int32, at uint64) {
	b := s.text[:0]
	if s.events > 0 {
		b = append(b, ',')
	}
	b = append(append(append(b, `{"type":"`...), typ), `","frame":`...)
	b = strconv.AppendInt(b, int64(frame), 10)
	b = strconv.AppendUint(append(b, `,"at":`...), at, 10)
	s.text = append(b, '}')
	s.events++
	out.Write(s.text)
}
