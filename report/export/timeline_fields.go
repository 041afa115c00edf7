package export

import (
	"errors"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/report/key"
)

// event is the part that all samples of an event share.
type event struct {
	name   string
	unit   string // of the periods: "nanoseconds", "bytes" or "count"
	cpu    bool   // samples contain a CPU
	clock  bool   // it samples threads while they run, each time for the period in ns
	wait   bool   // samples are waits, which last for the period in ns
	format *tracepoint.Format
	fields []field

	// Fields of spans, nil for others.
	duration, start *tracepoint.Field
	syscall         *tracepoint.Field // the number of the system call that samples are of, nil for none
}

// field is a field of a tracepoint.
type field struct {
	format *tracepoint.Field
	text   bool // a value of it was no number
}

// newEvent returns event i of a recording.
func newEvent(f *format.File, i int, o TimelineOptions) *event {
	a := &f.Attrs[i]
	e := &event{name: f.EventName(i), unit: session.EventUnit(f, i), cpu: a.SampleType&format.SampleCPU != 0,
		clock: a.IsClock(), wait: session.IsWait(a), format: f.Tracepoint(i)}
	if o.Weight != "" {
		e.unit = session.Unit(o.Weight)
	}
	if e.format == nil {
		return e
	}
	e.duration = e.format.Field("duration")
	if e.duration != nil {
		e.start = e.format.Field("start")
	}
	if key.HasSyscalls(e.format) {
		e.syscall = e.format.Field("id")
	}
	for n := range e.format.Fields {
		if fd := &e.format.Fields[n]; !strings.HasPrefix(fd.Name, "common_") {
			e.fields = append(e.fields, field{format: fd})
		}
	}
	return e
}

// value is the value of a field: a number that is exact in all readers, or a text.
type value struct {
	text   string
	number bool
	n      int64
}

// fieldReader reads the fields of samples. It is for one goroutine.
type fieldReader struct {
	env      tracepoint.Env
	syscalls fields.SyscallTable
	text     []byte // reused
}

func newFieldReader(s *session.Session) *fieldReader {
	return &fieldReader{env: session.TracepointEnv(s.File, s.Symbols),
		syscalls: fields.SyscallsOf(s.File.String(format.FeatureArch))}
}

// read calls use for each field of a tracepoint's sample, and for the waker of a wait.
func (r *fieldReader) read(e *event, s *session.Sample, use func(name string, v value)) {
	if len(e.fields) > 0 && len(s.Raw) > 0 {
		r.text = e.format.AppendPrint(r.text[:0], s.Raw, &r.env)
		printed := string(r.text)
		for i := range e.fields {
			fd := &e.fields[i]
			v := r.value(e, fd.format, s.Raw, printed)
			fd.text = fd.text || !v.number
			use(fd.format.Name, v)
		}
		r.derived(e, s, use)
	}
}

// derived calls use for the names of a system call and of its error.
func (r *fieldReader) derived(e *event, s *session.Sample, use func(name string, v value)) {
	if e.syscall == nil {
		return
	}
	use(key.Syscall, value{text: r.title(e, s)})
	if ret := e.format.Field("ret"); ret != nil {
		n, _ := ret.Uint(s.Raw, r.env.Order)
		if name := fields.ErrorName(int64(n)); name != "" {
			use("errno", value{text: name})
		}
	}
}

// value returns the value of a field: a number as such, unless it is an address, or perf script prints a name for it.
func (r *fieldReader) value(e *event, fd *tracepoint.Field, raw []byte, printed string) value {
	const exact = 1 << 53 // larger numbers are not exact in all readers
	n, number := fd.Uint(raw, r.env.Order)
	if name := fields.NumberName(fd.Name, n); number && name != "" {
		return value{text: name}
	}
	if key.HasBlanks(fd) {
		r.text = e.format.AppendField(r.text[:0], fd, raw, &r.env)
		return value{text: string(r.text)}
	}
	name := strings.TrimSuffix(tracepoint.Printed(printed, fd.Name), ",")
	switch {
	case !number:
	case fd.Pointer || name != "" && !isNumber(name):
		if name != "" {
			return value{text: name}
		}
	case fd.Signed && int64(n) > -exact && int64(n) < exact, !fd.Signed && n < exact:
		return value{number: true, n: int64(n)}
	}
	r.text = e.format.AppendField(r.text[:0], fd, raw, &r.env)
	return value{text: string(r.text)}
}

// isNumber reports whether a text is a number in Go's notation, as perf prints most.
func isNumber(text string) bool {
	_, err := strconv.ParseInt(text, 0, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// wakerFields calls use for the known fields of the thread that ended a wait.
func wakerFields(s *session.Sample, use func(name string, v value)) {
	if by := s.Waker; by != nil {
		use("waker_comm", value{text: by.Comm})
		use("waker_pid", value{number: true, n: int64(by.PID)})
		use("waker_tid", value{number: true, n: int64(by.TID)})
	}
}

// interval returns when the sample's span or wait began and ended, in ns. Both are the sample's time for other samples.
func (r *fieldReader) interval(e *event, s *session.Sample) (start, end uint64) {
	duration := uint64(0)
	switch {
	case e.wait:
		duration = s.Period
	case e.duration != nil:
		duration, _ = e.duration.Uint(s.Raw, r.env.Order)
	}
	if e.start != nil {
		if start, ok := e.start.Uint(s.Raw, r.env.Order); ok && start+duration >= start {
			return start, start + duration
		}
	}
	return s.Time - min(duration, s.Time), s.Time
}

// title returns the name of a sample: the name of the system call, or else of the event.
func (r *fieldReader) title(e *event, s *session.Sample) string {
	if e.syscall != nil {
		if id, ok := e.syscall.Uint(s.Raw, r.env.Order); ok {
			return r.syscalls.Name(key.SyscallNumber(e.format, int64(id), s.Is32Bit()))
		}
	}
	return e.name
}
