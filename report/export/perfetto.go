package export

import (
	"bufio"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"gperf/format"
	"gperf/internal/session"
)

// writePerfetto writes a trace of Perfetto (protos/perfetto/trace/trace.proto): a PerfSample for each sample, whose
// timebase_count is the sum of the periods of the event's samples on the CPU so far; and for tracepoints, spans and
// waits events with fields, on a track for each event of each thread. Threads of several recordings with the same
// ID become one.
func (p *set) writePerfetto(w io.Writer) error {
	t := &perfetto{set: p, clock: p.newClock(), out: bufio.NewWriterSize(w, 1<<16)}
	threads := p.ordered()
	tracks := t.writeDescriptors(threads)
	byEvent := map[*event][]int32{} // samples
	for i := range p.samples {
		e := p.samples[i].thread.event
		byEvent[e] = append(byEvent[e], int32(i))
	}
	for _, r := range p.recordings {
		for i, e := range r.events {
			if len(byEvent[e]) == 0 {
				continue
			}
			s := t.newSequence(r, i)
			s.writeSamples(byEvent[e])
			for _, th := range threads {
				if th.event == e && e.marks() {
					s.writeTrack(th, tracks[th])
				}
			}
		}
	}
	return t.out.Flush()
}

// message is an encoded message of protocol buffers, or a part of it.
type message []byte

func (m message) uint(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// text appends a field that is a text. Texts of protocol buffers are UTF-8: readers refuse others.
func (m message) text(field protowire.Number, v string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), strings.ToValidUTF8(v, "\ufffd"))
}

// sub appends a field that is a message.
func (m message) sub(field protowire.Number, v message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

// Numbers of fields, by message.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetTrackEvent = 11
	packetInterned   = 12
	packetFlags      = 13
	packetDefaults   = 59
	packetDescriptor = 60
	packetPerfSample = 66

	defaultsPerfSample = 12 // of TracePacketDefaults
	perfSampleTimebase = 1  // of PerfSampleDefaults

	timebasePeriod     = 1
	timebaseFrequency  = 2
	timebaseTracepoint = 3
	timebaseRaw        = 5
	timebaseName       = 10

	samplePerfCPU       = 1
	samplePerfPID       = 2
	samplePerfTID       = 3
	samplePerfCallstack = 4
	samplePerfMode      = 5
	samplePerfCount     = 6

	internedFunctions  = 5
	internedFrames     = 6
	internedCallstacks = 7
	internedBuildIDs   = 16
	internedPaths      = 17
	internedSources    = 18
	internedMappings   = 19

	descriptorUUID    = 1
	descriptorName    = 2
	descriptorProcess = 3
	descriptorThread  = 4
	descriptorParent  = 5

	trackAnnotation = 4
	trackType       = 9
	trackUUID       = 11
	trackCategory   = 22
	trackName       = 23
	trackCallstack  = 56
)

// Values of TrackEvent.Type, and of sequence_flags.
const (
	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3

	stateCleared = 1
	needsState   = 2
)

// appendAnnotation appends a field of a TrackEvent.
func appendAnnotation(b []byte, name string, v value) []byte {
	m := message{}.text(10, name)
	if v.number {
		m = m.uint(4, uint64(v.n))
	} else {
		m = m.text(6, v.text)
	}
	return message(b).sub(trackAnnotation, m)
}

// perfetto writes a trace.
type perfetto struct {
	set       *set
	clock     *clock
	out       *bufio.Writer
	uuids     uint64 // of tracks
	sequences uint64
	packet    message // reused
}

func (t *perfetto) write(packet message) {
	t.packet = t.packet[:0].sub(tracePacket, packet)
	t.out.Write(t.packet)
}

func (t *perfetto) newUUID() uint64 {
	t.uuids++
	return t.uuids
}

// writeDescriptors writes the names of processes and threads. It returns the threads' tracks.
func (t *perfetto) writeDescriptors(threads []*thread) map[*thread]uint64 {
	t.sequences++
	processes, ids, tracks := map[int32]uint64{}, map[int32]uint64{}, map[*thread]uint64{}
	for _, th := range threads {
		if processes[th.pid] == 0 {
			processes[th.pid] = t.newUUID()
			name := th.comm
			if main := th.recording.comms[th.pid]; main != "" {
				name = main
			}
			process := message{}.uint(1, uint64(uint32(th.pid))).text(6, name)
			t.writeDescriptor(message{}.uint(descriptorUUID, processes[th.pid]).sub(descriptorProcess, process))
		}
		if ids[th.tid] == 0 {
			ids[th.tid] = t.newUUID()
			one := message{}.uint(1, uint64(uint32(th.pid))).uint(2, uint64(uint32(th.tid))).
				text(5, th.comm)
			t.writeDescriptor(message{}.uint(descriptorUUID, ids[th.tid]).
				uint(descriptorParent, processes[th.pid]).sub(descriptorThread, one))
		}
		tracks[th] = ids[th.tid]
	}
	return tracks
}

func (t *perfetto) writeDescriptor(m message) {
	t.write(message{}.uint(packetSequence, 1).sub(packetDescriptor, m))
}

// sequence writes the packets of an event, which share the texts and stacks that were written before.
type sequence struct {
	trace     *perfetto
	id        uint64
	recording *timelineInput
	event     *event
	timebase  message // of the samples, until it is written

	functions, mappings, frames, stacks []bool // that were written
}

// newSequence returns the sequence of event i of a recording.
func (t *perfetto) newSequence(r *timelineInput, i int) *sequence {
	t.sequences++
	a := &r.file.Attrs[i]
	base := message{}.text(timebaseName, r.events[i].name)
	if a.Flags&format.FlagFreq != 0 {
		base = base.uint(timebaseFrequency, a.SamplePeriod)
	} else {
		base = base.uint(timebasePeriod, a.SamplePeriod)
	}
	if a.Type == format.TypeTracepoint {
		base = base.sub(timebaseTracepoint, message{}.text(1, r.events[i].name))
	} else {
		base = base.sub(timebaseRaw, message{}.uint(1, uint64(a.Type)).uint(2, a.Config))
	}
	return &sequence{trace: t, id: t.sequences, recording: r, event: r.events[i], timebase: base,
		functions: make([]bool, len(t.set.functions)), mappings: make([]bool, len(t.set.mappings)),
		frames: make([]bool, len(t.set.frames)), stacks: make([]bool, len(t.set.stacks))}
}

// begin returns a packet with the stack, if it was not written before.
func (s *sequence) begin(time uint64, stack int32) message {
	m := message{}.uint(packetTimestamp, s.trace.clock.at(s.recording, time)).uint(packetSequence, s.id)
	if s.timebase != nil {
		m = m.uint(packetFlags, stateCleared|needsState).sub(packetDefaults, message{}.sub(defaultsPerfSample,
			message{}.sub(perfSampleTimebase, s.timebase)))
		s.timebase = nil
	} else {
		m = m.uint(packetFlags, needsState)
	}
	if stack >= 0 && !s.stacks[stack] && len(s.trace.set.stacks[stack]) > 0 {
		s.stacks[stack] = true
		m = m.sub(packetInterned, s.intern(stack))
	}
	return m
}

// intern returns a stack, and the frames, functions and mappings in it that were not written before.
func (s *sequence) intern(stack int32) (m message) {
	list := message{}.uint(1, uint64(stack)+1)
	for _, n := range s.trace.set.stacks[stack] { // the outermost first, as in the file
		list = list.uint(2, uint64(n)+1)
		if s.frames[n] {
			continue
		}
		s.frames[n] = true
		f := &s.trace.set.frames[n]
		m = s.internFunction(m, f.function)
		m = s.internMapping(m, f.mapping)
		m = m.sub(internedFrames, s.frame(f).uint(1, uint64(n)+1))
	}
	return m.sub(internedCallstacks, list)
}

func (s *sequence) internFunction(m message, n int32) message {
	if s.functions[n] {
		return m
	}
	s.functions[n] = true
	f := &s.trace.set.functions[n]
	m = m.sub(internedFunctions, message{}.uint(1, uint64(n)+1).text(2, f.name))
	if f.file != "" {
		m = m.sub(internedSources, message{}.uint(1, uint64(n)+1).text(2, f.file))
	}
	return m
}

func (s *sequence) internMapping(m message, n int32) message {
	if n < 0 || s.mappings[n] {
		return m
	}
	s.mappings[n] = true
	of, id := &s.trace.set.mappings[n], uint64(n)+1
	m = m.sub(internedPaths, message{}.uint(1, id).text(2, of.name))
	one := message{}.uint(1, id)
	if b := of.of.DSO.BuildID; !b.IsZero() {
		m = m.sub(internedBuildIDs, message{}.uint(1, id).sub(2, b.Bytes()))
		one = one.uint(2, id)
	}
	return m.sub(internedMappings, one.uint(4, of.of.Start).uint(5, of.of.End).uint(8, of.of.Pgoff).uint(7, id))
}

// perfettoKinds are the values of Frame.kind.
var perfettoKinds = [...]uint64{session.KindUnknown: 0, session.KindNative: 1, session.KindKernel: 2,
	session.KindRuntime: 4, session.KindJIT: 4}

// timelineFrame returns a timelineFrame without ID.
func (s *sequence) frame(f *timelineFrame) message {
	fn := &s.trace.set.functions[f.function]
	m := message{}.uint(2, uint64(f.function)+1)
	if f.mapping >= 0 {
		m = m.uint(3, uint64(f.mapping)+1).uint(4, f.addr)
	}
	if fn.file != "" {
		m = m.uint(5, uint64(f.function)+1)
	}
	if f.line > 0 && uint64(f.line) <= math.MaxUint32 {
		m = m.uint(6, uint64(f.line))
	}
	return m.uint(7, perfettoKinds[fn.kind])
}

// writeSamples writes the samples of the event.
func (s *sequence) writeSamples(list []int32) {
	counts := map[uint32]uint64{} // by CPU
	for _, i := range list {
		one := &s.trace.set.samples[i]
		counts[one.cpu] += one.period
		m := message{}.uint(samplePerfCPU, uint64(one.cpu)).uint(samplePerfPID, uint64(uint32(one.thread.pid))).
			uint(samplePerfTID, uint64(uint32(one.thread.tid))).uint(samplePerfMode, s.mode(one.stack)).
			uint(samplePerfCount, counts[one.cpu])
		if len(s.trace.set.stacks[one.stack]) > 0 {
			m = m.uint(samplePerfCallstack, uint64(one.stack)+1)
		}
		s.trace.write(s.begin(one.time, one.stack).sub(packetPerfSample, m))
	}
}

// mode returns where the innermost frame of a stack ran, a Profiling.CpuMode.
func (s *sequence) mode(stack int32) uint64 {
	const unknown, kernel, user = 0, 1, 2
	list := s.trace.set.stacks[stack]
	switch {
	case len(list) == 0:
		return unknown
	case s.trace.set.functions[s.trace.set.frames[list[len(list)-1]].function].kind == session.KindKernel:
		return kernel
	}
	return user
}

// writeTrack writes the samples of a thread as events of tracks below the thread's.
func (s *sequence) writeTrack(t *thread, parent uint64) {
	category, _, _ := strings.Cut(t.name, ":")
	var instants, spans []int32
	for _, i := range t.samples {
		if one := &s.trace.set.samples[i]; one.start < one.end {
			spans = append(spans, i)
		} else {
			instants = append(instants, i)
		}
	}
	begin := func(track uint64, typ uint64, one *sample) {
		m := message{}.uint(trackType, typ).uint(trackUUID, track).text(trackCategory, category).
			text(trackName, one.title)
		m = append(m, one.fields...)
		if len(s.trace.set.stacks[one.stack]) > 0 {
			m = m.uint(trackCallstack, uint64(one.stack)+1)
		}
		s.trace.write(s.begin(one.start, one.stack).sub(packetTrackEvent, m))
	}
	if len(instants) > 0 {
		track := s.newTrack(t, parent)
		for _, i := range instants {
			begin(track, instant, &s.trace.set.samples[i])
		}
	}
	for _, lane := range lanes(s.trace.set.samples, spans) {
		track := s.newTrack(t, parent)
		end := func(at uint64) {
			m := message{}.uint(trackType, sliceEnd).uint(trackUUID, track)
			s.trace.write(s.begin(at, -1).sub(packetTrackEvent, m))
		}
		var open spanStack
		for _, i := range lane {
			open.leave(s.trace.set.samples[i].start, end)
			begin(track, sliceBegin, &s.trace.set.samples[i])
			open = append(open, s.trace.set.samples[i].end)
		}
		open.leave(math.MaxUint64, end)
	}
}

// newTrack writes the descriptor of a track below a thread's track.
func (s *sequence) newTrack(t *thread, parent uint64) uint64 {
	track := s.trace.newUUID()
	s.trace.writeDescriptor(
		message{}.uint(descriptorUUID, track).uint(descriptorParent, parent).text(descriptorName, t.name))
	return track
}
