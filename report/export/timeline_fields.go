package export

import (
	"strconv"

	"gperf/format"
	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/report/key"
)

// event is the part that all samples of an event share.
type event struct {
	name       string
	unit       string // of the periods: "nanoseconds", "bytes" or "count"
	cpu        bool   // samples contain a CPU
	clock      bool   // it samples threads while they run, each time for the period in ns
	wait       bool   // samples are waits, which last for the period in ns
	goroutines bool   // of goroutines
	format     *tracepoint.Format
	fields     []field

	// Fields of spans, nil for others.
	duration, start *tracepoint.Field
	syscall         *tracepoint.Field // the number of the system call that samples are of, nil for none
}

// field is a field of a tracepoint, or the name of its system call.
type field struct {
	key.Column
	text bool // a value of it was no number
}

// newEvent returns event i of a recording.
func newEvent(f *format.File, i int, o TimelineOptions, columns []key.Column) *event {
	a := &f.Attrs[i]
	e := &event{name: f.EventName(i), unit: session.EventUnit(f, i, o.Weight), cpu: a.SampleType&format.SampleCPU != 0,
		clock: a.IsClock(), wait: session.IsWait(a), goroutines: session.IsGoroutineWait(a), format: f.Tracepoint(i)}
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
	for _, c := range columns {
		e.fields = append(e.fields, field{Column: c})
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
	events   []*event
	env      tracepoint.Env
	syscalls fields.SyscallTable
	keys     *key.Keys
	values   []key.Value // reused
}

// newFieldReader returns a reader of a recording's fields.
func newFieldReader(s *session.Session, o TimelineOptions) (*fieldReader, error) {
	keys, err := key.New(s.File, s.Symbols, key.Options{All: true})
	if err != nil {
		return nil, err
	}
	r := &fieldReader{env: session.TracepointEnv(s.File, s.Symbols), keys: keys,
		syscalls: fields.SyscallsOf(s.File.String(format.FeatureArch))}
	for i := range s.File.Attrs {
		r.events = append(r.events, newEvent(s.File, i, o, keys.Columns(i)))
	}
	return r, nil
}

// read calls use for each field of a tracepoint's sample, and for the name of the error that a system call returned.
func (r *fieldReader) read(s *session.Sample, use func(name string, v value)) {
	e := r.events[s.Event]
	if len(e.fields) == 0 || len(s.Raw) == 0 {
		return
	}
	r.values = r.keys.Values(r.values[:0], s)
	for i := range r.values {
		fd := &e.fields[i]
		v := fd.value(&r.values[i])
		if id := e.syscall; id != nil && fd.Key == id.Name { // key.Syscall has its name
			n, _ := id.Uint(s.Raw, r.env.Order)
			v = value{number: true, n: int64(n)}
		}
		fd.text = fd.text || !v.number
		use(fd.Key, v)
	}
	if e.syscall == nil {
		return
	}
	if ret := e.format.Field("ret"); ret != nil {
		n, _ := ret.Uint(s.Raw, r.env.Order)
		if name := fields.ErrorName(int64(n)); name != "" {
			use("errno", value{text: name})
		}
	}
}

// value returns a value as a number, unless it has no number or not all readers keep it.
func (fd *field) value(v *key.Value) value {
	const exact = 1 << 53
	switch n := v.Number; {
	case !v.Numeric:
		return value{text: v.Text}
	case n < exact && (n > -exact && !fd.Unsigned || n >= 0):
		return value{number: true, n: n}
	case fd.Unsigned:
		return value{text: strconv.FormatUint(uint64(n), 10)}
	}
	return value{text: strconv.FormatInt(v.Number, 10)}
}

// ofWait calls use for the kind of a wait, and for the known fields of the thread that ended it.
func (r *fieldReader) ofWait(s *session.Sample, use func(name string, v value)) {
	if r.events[s.Event].wait {
		if kind := s.WaitKind(); kind != "" {
			use("kind", value{text: kind})
		}
	}
	if r.events[s.Event].goroutines {
		use("goroutine", value{number: true, n: int64(s.Addr)})
	}
	if by := s.Waker; by != nil {
		use("waker_comm", value{text: by.Comm})
		use("waker_pid", value{number: true, n: int64(by.PID)})
		use("waker_tid", value{number: true, n: int64(by.TID)})
	}
}

// interval returns when the sample's span or wait began and ended, in ns. Both are the sample's time for other samples.
func (r *fieldReader) interval(s *session.Sample) (start, end uint64) {
	e := r.events[s.Event]
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
func (r *fieldReader) title(s *session.Sample) string {
	e := r.events[s.Event]
	if e.syscall != nil {
		if id, ok := e.syscall.Uint(s.Raw, r.env.Order); ok {
			return r.syscalls.Name(key.SyscallNumber(e.format, int64(id), s.Is32Bit()))
		}
	}
	return e.name
}
