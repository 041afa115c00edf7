package perfevent

import (
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format/fields"
	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/probe/args"
	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// kernelFilter returns an event's filter in the kernel's syntax: with numbers instead of
// names of values. A filter that cannot be parsed goes to the kernel unchanged, because the
// kernel may support more; err then describes the problem.
func kernelFilter(ev *event.Event, t *tracefs.FS) (filter string, err error) {
	if ev.Filter == "" {
		return "", nil
	}
	text, err := t.Read("events/" + ev.Tracepoint + "/format")
	if err != nil {
		return ev.Filter, nil
	}
	system, _, _ := strings.Cut(ev.Tracepoint, "/")
	f, err := tracepoint.Parse(text, system)
	if err != nil {
		return ev.Filter, nil
	}
	_, numeric, err := event.ParseFilter(ev.Filter, FilterFields(f))
	if err != nil {
		return ev.Filter, err
	}
	return numeric, nil
}

// FilterFields returns the fields of a tracepoint, as filters see them.
func FilterFields(f *tracepoint.Format) (l []event.Field) {
	for i := range f.Fields {
		fd := &f.Fields[i]
		text := fd.String || fd.Pointer && strings.Contains(fd.Type, "char")
		field := event.Field{Name: fd.Name, Text: text, Values: func() []event.Value { return fieldValues(f, fd) }}
		if length := fd.Name + args.LengthSuffix; f.Field(length) != nil {
			field.Length = length
		}
		l = append(l, field)
	}
	return append(l, namedFields(f)...)
}

// namedFields returns the fields that name the numbers of others, as they are named when a recording is read: system
// calls, and the errors that they returned.
func namedFields(f *tracepoint.Format) (l []event.Field) {
	isCalls := f.System == "raw_syscalls" || f.Field("duration") != nil && f.Field("args") != nil
	if f.Field("id") != nil && isCalls {
		l = append(l, event.Field{Name: "syscall", Of: "id", Values: event.SyscallNames})
	}
	if f.Field("ret") != nil {
		l = append(l, event.Field{Name: "errno", Of: "ret", Partial: true, Values: func() (l []event.Value) {
			for name, n := range fields.NamesOf("ret") {
				l = append(l, event.Value{Name: strings.TrimPrefix(name, "-"), Number: n})
			}
			return l
		}})
	}
	return l
}

// fieldValues returns the names of a field's numbers: those in the print format, else those
// of its enumeration in BTF, else those of package fields.
func fieldValues(f *tracepoint.Format, fd *tracepoint.Field) (l []event.Value) {
	for _, s := range f.Symbols(fd) {
		l = append(l, event.Value{Name: s.Name, Number: s.Value})
	}
	if name, ok := strings.CutPrefix(fd.Type, "enum "); ok && l == nil {
		for _, v := range kernel.EnumValues(name) {
			l = append(l, event.Value{Name: v.Name, Number: v.Number})
		}
	}
	if l == nil {
		for name, n := range fields.NamesOf(fd.Name) {
			l = append(l, event.Value{Name: name, Number: n})
		}
	}
	return l
}

// setFilter makes the counter count only if a filter is true. bad is the known problem of the
// filter, if any.
func (c *Counter) setFilter(ev *event.Event, filter string, bad error) error {
	if filter == "" {
		return nil
	}
	text, err := unix.BytePtrFromString(filter)
	if err == nil {
		err = ioctlPtr(c.FD, unix.PERF_EVENT_IOC_SET_FILTER, text)
	}
	if err == nil {
		return nil
	}
	if bad != nil {
		err = bad
	}
	return &FilterError{ev.Name, ev.Filter, err}
}
