package record

import (
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/tracefs"
)

// filter has the counter count only where the event's filter is true.
func (c *counter) filter(ev *event.Event, t *tracefs.FS) error {
	if ev.Filter == "" {
		return nil
	}
	text, err := unix.BytePtrFromString(ev.Filter)
	if err == nil {
		err = ioctlPtr(c.fd, unix.PERF_EVENT_IOC_SET_FILTER, text)
	}
	if err == nil {
		return nil
	}
	return &FilterError{ev.Name, ev.Filter, badFilter(ev, t), err}
}

// badFilter is what is wrong with a filter that the kernel refuses without saying why.
func badFilter(ev *event.Event, t *tracefs.FS) string {
	text, err := t.Read("events/" + ev.Tracepoint + "/format")
	if err != nil {
		return ""
	}
	system, _, _ := strings.Cut(ev.Tracepoint, "/")
	f, err := tracepoint.Parse(text, system)
	if err != nil {
		return ""
	}
	var fields []event.Field
	for _, field := range f.Fields {
		fields = append(fields, event.Field{Name: field.Name, Text: field.String || field.Pointer && strings.Contains(field.Type, "char")})
	}
	return event.CheckFilter(ev.Filter, fields)
}
