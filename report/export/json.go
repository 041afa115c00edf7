package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"

	"gperf/format"
	"gperf/internal/session"
)

// jsonWriter writes a line for each sample, a JSON object:
//
//	{"time": 1234, "event": "skb:kfree_skb", "comm": "curl", "pid": 7, "tid": 7, "cpu": 0, "period": 1,
//	 "fields": {"reason": "NO_SOCKET", "protocol": "IPv4"},
//	 "stack": [{"function": "f", "file": "a.c", "line": 3, "dso": "/bin/curl", "ip": "0x4010"}]}
//
// Times are in ns of the recording's clock. A stack is innermost first; functions that were inlined at an address
// precede the one that contains them, and have "inlined": true. The fields are fields of a tracepoint: text as perf
// script prints it, a name, or a decimal number; system calls have syscall, and errno if they failed. Waits have
// their kind, and waker_comm, waker_pid and waker_tid if their wakers were recorded. Samples of several recordings have
// host, file and boot after the time. Members without a value are missing.
type jsonWriter struct {
	TimelineOptions
	out *bufio.Writer

	fields *fieldReader // of the current recording, as the next ones
	events []jsonEvent
	// The objects of frames: of callchains, and of samples without.
	frames session.ByFrame[[]byte]
	leaves map[*session.Frame][]byte
	comms  map[string][]byte
	origin []byte // members of each sample
	line   []byte // reused
}

// Add implements Writer.
func (j *jsonWriter) Add(s *session.Session) (format.Skipped, error) {
	var err error
	if j.fields, err = newFieldReader(s, j.TimelineOptions); err != nil {
		return format.Skipped{}, err
	}
	j.events = nil
	j.frames, j.leaves, j.comms = session.ByFrame[[]byte]{}, map[*session.Frame][]byte{}, map[string][]byte{}
	j.origin = nil
	for _, key := range session.OriginKeys {
		if j.Origins {
			j.origin = append(append(append(j.origin, `,"`...), key...), `":`...)
			j.origin = append(j.origin, quoted(s.Origin.Part(key))...)
		}
	}
	for _, e := range j.fields.events {
		j.events = append(j.events, jsonEvent{event: e, quoted: quoted(e.name)})
	}
	return s.Walk(session.WalkOptions{Names: true}, j.batch)
}

// Finish implements Writer.
func (j *jsonWriter) Finish() error { return j.out.Flush() }

// jsonEvent is an event with its name as a JSON string.
type jsonEvent struct {
	*event
	quoted []byte
}

func (j *jsonWriter) batch(b *session.Batch) error {
	j.nameFrames(b.Samples)
	for i := range b.Samples {
		j.sample(&b.Samples[i])
		if _, err := j.out.Write(j.line); err != nil {
			return err
		}
	}
	b.Release()
	return nil
}

// sample writes a sample to line.
func (j *jsonWriter) sample(s *session.Sample) {
	e := &j.events[s.Event]
	b := append(j.line[:0], `{"time":`...)
	b = strconv.AppendUint(b, s.Time, 10)
	b = append(b, j.origin...)
	b = append(append(b, `,"event":`...), e.quoted...)
	b = append(append(b, `,"comm":`...), j.comm(s.Comm)...)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(s.PID), 10)
	b = strconv.AppendInt(append(b, `,"tid":`...), int64(s.TID), 10)
	if e.cpu {
		b = strconv.AppendUint(append(b, `,"cpu":`...), uint64(s.CPU), 10)
	}
	b = strconv.AppendUint(append(b, `,"period":`...), s.Period, 10)
	if len(e.fields) > 0 && len(s.Raw) > 0 {
		b = append(b, `,"fields":{`...)
		from := len(b)
		j.fields.read(s, func(name string, v value) {
			if len(b) > from {
				b = append(b, ',')
			}
			b = appendMember(b, name, v)
		})
		b = append(b, '}')
	}
	j.fields.ofWait(s, func(name string, v value) { b = appendMember(append(b, ','), name, v) })
	b = append(b, `,"stack":[`...)
	from := len(b)
	chain := s.Chain.Cut(j.MaxStack)
	objects := j.frames[chain.In()]
	for _, part := range [...]session.Part{chain.Kernel, chain.User} {
		for _, id := range part.IDs {
			if len(b) > from {
				b = append(b, ',')
			}
			b = append(b, objects[id]...)
		}
	}
	if chain.Len() == 0 && s.Leaf != nil {
		b = append(b, j.leaves[s.Leaf]...)
	}
	j.line = append(b, "]}\n"...)
}

// nameFrames makes the objects of frames that have none yet. It looks up their functions on all CPUs.
func (j *jsonWriter) nameFrames(samples []session.Sample) {
	type newFrame struct {
		frame *session.Frame
		in    *session.Callchains // nil: in leaves
	}
	var list []newFrame
	for i := range samples {
		s := &samples[i]
		chain := s.Chain.Cut(j.MaxStack)
		if _, ok := j.leaves[s.Leaf]; chain.Len() == 0 && s.Leaf != nil && !ok {
			j.leaves[s.Leaf] = nil
			list = append(list, newFrame{s.Leaf, nil})
		}
		in := chain.In()
		for _, part := range [...]session.Part{chain.Kernel, chain.User} {
			for i, id := range part.IDs {
				if known := j.frames[in]; int(id) < len(known) && known[id] != nil {
					continue
				}
				list = append(list, newFrame{part.At(i), in})
				j.frames.Set(in, part.At(i), []byte{})
			}
		}
	}
	session.LookUpCalls(func(yield func(*session.Frame) bool) {
		for _, f := range list {
			if !yield(f.frame) {
				return
			}
		}
	})
	for _, f := range list {
		if f.in == nil {
			j.leaves[f.frame] = j.object(f.frame)
		} else {
			j.frames.Set(f.in, f.frame, j.object(f.frame))
		}
	}
}

func (j *jsonWriter) comm(name string) []byte {
	b, ok := j.comms[name]
	if !ok {
		b = quoted(name)
		j.comms[name] = b
	}
	return b
}

// object returns the objects of a frame's functions, separated by commas.
func (j *jsonWriter) object(f *session.Frame) (b []byte) {
	type object struct {
		Function string `json:"function,omitempty"`
		Inlined  bool   `json:"inlined,omitempty"`
		File     string `json:"file,omitempty"`
		Line     int    `json:"line,omitempty"`
		DSO      string `json:"dso,omitempty"`
		BuildID  string `json:"build_id,omitempty"`
		Kernel   bool   `json:"kernel,omitempty"`
		IP       string `json:"ip"`
	}
	of := object{Kernel: f.Kernel, IP: "0x" + strconv.FormatUint(f.IP, 16)}
	if m := f.Map; m != nil {
		of.DSO = f.DSO()
		if id := m.DSO.BuildID; !id.IsZero() {
			of.BuildID = id.String()
		}
	}
	list := f.Functions(!j.NoInline)
	if len(list) == 0 {
		list = []session.Function{{}}
	}
	for _, fn := range list {
		of.Function, of.Inlined, of.File, of.Line = fn.Name, fn.Inlined, fn.File, fn.Line
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, encodedTimeline(of)...)
	}
	return b
}

// appendMember appends a member of a JSON object.
func appendMember(b []byte, name string, v value) []byte {
	b = append(appendQuoted(b, name), ':')
	if v.number {
		return strconv.AppendInt(b, v.n, 10)
	}
	return appendQuoted(b, v.text)
}

// appendQuoted appends a text as a JSON string.
func appendQuoted(b []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, quoted(text)...)
		}
	}
	b = append(append(b, '"'), text...)
	return append(b, '"')
}

// quoted returns a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func quoted(text string) []byte { return encodedTimeline(text) }

// encodedTimeline returns strings, numbers and structs of these as JSON.
func encodedTimeline(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) // these have no error
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
