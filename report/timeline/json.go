package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/session"
)

// JSON writes a line for each sample, a JSON object:
//
//	{"time": 1234, "event": "skb:kfree_skb", "comm": "curl", "pid": 7, "tid": 7, "cpu": 0, "period": 1,
//	 "fields": {"reason": "NO_SOCKET", "protocol": 2048},
//	 "stack": [{"function": "f", "file": "a.c", "line": 3, "dso": "/bin/curl", "ip": "0x4010"}]}
//
// Times are in ns of the recording's clock. A stack is innermost first; functions that were
// inlined at an address precede the one that contains them, and have "inlined": true. The fields
// are those of a tracepoint: text as perf script prints it, or a decimal number. Waits have
// waker_comm, waker_pid and waker_tid if their wakers were recorded. Members without a
// value are missing. The result counts the skipped parts of the recording.
func JSON(w io.Writer, s *session.Session, o Options) (format.Skipped, error) {
	j := &jsonWriter{Options: o, out: bufio.NewWriterSize(w, 1<<16), env: session.TracepointEnv(s.File, s.Symbols),
		file: s.File, frames: map[session.ChainFrame][]byte{}, comms: map[string][]byte{}}
	for i := range s.File.Attrs {
		j.events = append(j.events, newJSONEvent(s.File, i))
	}
	skipped, err := s.Walk(session.WalkOptions{Names: true}, j.batch)
	if err == nil {
		err = j.out.Flush()
	}
	return skipped, err
}

// jsonWriter writes samples as JSON.
type jsonWriter struct {
	Options
	out    *bufio.Writer
	env    tracepoint.Env
	file   *format.File
	events []jsonEvent
	frames map[session.ChainFrame][]byte // their objects
	comms  map[string][]byte
	line   []byte // reused
	text   []byte // reused
}

// jsonEvent is what all samples of an event share.
type jsonEvent struct {
	name   []byte // quoted
	cpu    bool   // samples have a CPU
	format *tracepoint.Format
	fields []jsonField
}

// jsonField is a field of a tracepoint, with its name as the member's key.
type jsonField struct {
	key []byte
	*tracepoint.Field
}

func newJSONEvent(f *format.File, i int) jsonEvent {
	e := jsonEvent{name: quoted(f.EventName(i)), cpu: f.Attrs[i].SampleType&format.SampleCPU != 0,
		format: f.Tracepoint(i)}
	if e.format == nil {
		return e
	}
	for n := range e.format.Fields {
		if fd := &e.format.Fields[n]; !strings.HasPrefix(fd.Name, "common_") {
			e.fields = append(e.fields, jsonField{append(quoted(fd.Name), ':'), fd})
		}
	}
	return e
}

func (j *jsonWriter) batch(b *session.Batch) error {
	lookUp(j.Options, b.Samples, j.frames)
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
	b = append(append(b, `,"event":`...), e.name...)
	b = append(append(b, `,"comm":`...), j.comm(s.Comm)...)
	b = strconv.AppendInt(append(b, `,"pid":`...), int64(s.PID), 10)
	b = strconv.AppendInt(append(b, `,"tid":`...), int64(s.TID), 10)
	if e.cpu {
		b = strconv.AppendUint(append(b, `,"cpu":`...), uint64(s.CPU), 10)
	}
	b = strconv.AppendUint(append(b, `,"period":`...), s.Period, 10)
	if len(e.fields) > 0 && len(s.Raw) > 0 {
		b = append(b, `,"fields":{`...)
		j.text = e.format.AppendPrint(j.text[:0], s.Raw, &j.env)
		printed := string(j.text)
		for i, fd := range e.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = j.appendField(append(b, fd.key...), e, fd.Field, s.Raw, printed)
		}
		b = append(b, '}')
	}
	if by := s.Waker; by != nil {
		b = append(append(b, `,"waker_comm":`...), j.comm(by.Comm)...)
		b = strconv.AppendInt(append(b, `,"waker_pid":`...), int64(by.PID), 10)
		b = strconv.AppendInt(append(b, `,"waker_tid":`...), int64(by.TID), 10)
	}
	b = append(b, `,"stack":[`...)
	from := len(b)
	for f := range j.stackOf(s) {
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(b, j.frame(f)...)
	}
	j.line = append(b, "]}\n"...)
}

func (j *jsonWriter) comm(name string) []byte {
	b, ok := j.comms[name]
	if !ok {
		b = quoted(name)
		j.comms[name] = b
	}
	return b
}

// frame returns the objects of a frame's functions.
func (j *jsonWriter) frame(f session.ChainFrame) []byte {
	b, ok := j.frames[f]
	if ok {
		return b
	}
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
	of := object{Kernel: f.Frame.Kernel, IP: "0x" + strconv.FormatUint(f.Frame.IP, 16)}
	if m := f.Frame.Map; m != nil {
		of.DSO = f.Frame.DSO()
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
		b = append(b, encoded(of)...)
	}
	if f.Frame.ID >= 0 { // others are not shared
		j.frames[f] = b
	}
	return b
}

// appendField appends a field's value: a number as such, unless it is an address, or perf script prints a name for it.
func (j *jsonWriter) appendField(b []byte, e *jsonEvent, fd *tracepoint.Field, raw []byte, printed string) []byte {
	const exact = 1 << 53 // larger numbers are not exact in all readers
	n, number := fd.Uint(raw, j.env.Order)
	name := strings.TrimSuffix(tracepoint.Printed(printed, fd.Name), ",")
	switch {
	case !number:
	case fd.Pointer || name != "" && !isNumber(name):
		if name != "" {
			return appendQuoted(b, []byte(name))
		}
	case fd.Signed && int64(n) > -exact && int64(n) < exact:
		return strconv.AppendInt(b, int64(n), 10)
	case !fd.Signed && n < exact:
		return strconv.AppendUint(b, n, 10)
	}
	j.text = e.format.AppendField(j.text[:0], fd, raw, &j.env)
	return appendQuoted(b, j.text)
}

// isNumber reports whether a text is a number in Go's notation, as perf prints most.
func isNumber(text string) bool {
	_, err := strconv.ParseInt(text, 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// appendQuoted appends a text as a JSON string.
func appendQuoted(b, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, quoted(string(text))...)
		}
	}
	b = append(append(b, '"'), text...)
	return append(b, '"')
}

// quoted returns a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func quoted(text string) []byte { return encoded(text) }

// encoded returns strings, numbers and structs of these as JSON.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(v) // these have no error
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
