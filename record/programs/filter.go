package programs

import (
	"errors"
	"fmt"

	"gperf/bpf"
	"gperf/format/tracepoint"
	"gperf/record/event"
	"gperf/record/perfevent"
)

// filterOf returns an event's filter for the BPF program that makes the event's samples, nil if there is no
// filter. text is the format of the samples' raw data.
func filterOf(ev *event.Event, text []byte) (*bpf.Filter, error) {
	if ev.Filter == "" {
		return nil, nil
	}
	f, err := tracepoint.Parse(text, "")
	if err != nil {
		return nil, err
	}
	tree, _, err := event.ParseFilter(ev.Filter, perfevent.FilterFields(f))
	if err != nil {
		return nil, err
	}
	return bpfFilter(tree, f)
}

// CheckFilter returns why the BPF program of a raw tracepoint cannot apply the event's filter; nil: it can.
func CheckFilter(ev *event.Event) error {
	if ev.Filter == "" {
		return nil
	}
	l, err := ev.Raw.Layout()
	if err != nil {
		return err
	}
	_, err = filterOf(ev, l.Format(0))
	return err
}

// errGlob: only the kernel's own filters support globs.
var errGlob = errors.New("the event's BPF program compares text by == and != only; " +
	"the tracepoint without arguments supports globs")

// bpfFilter replaces field names by positions in the raw data.
func bpfFilter(f *event.Filter, in *tracepoint.Format) (*bpf.Filter, error) {
	if f == nil {
		return nil, nil
	}
	b := &bpf.Filter{Op: f.Op, Number: f.Number, Text: f.Text}
	var left, right error
	b.Left, left = bpfFilter(f.Left, in)
	b.Right, right = bpfFilter(f.Right, in)
	if err := errors.Join(left, right); err != nil || f.Left != nil {
		return b, err
	}
	switch {
	case f.Special != "":
		return nil, fmt.Errorf("%s: the event's BPF program cannot compare this", f.Special)
	case f.Op == "~":
		return nil, errGlob
	}
	fd := in.Field(f.Field)
	switch {
	case fd == nil && (f.Field == "COMM" || f.Field == "comm"):
		b.Of = bpf.CurrentComm
	case fd == nil && (f.Field == "CPU" || f.Field == "cpu"):
		b.Of = bpf.CurrentCPU
	case fd == nil:
		return nil, fmt.Errorf("%s: the event's BPF program does not have this field", f.Field)
	case fd.Dynamic && fd.String:
		b.Of, b.At = bpf.FieldDynamic, fd.Offset
	case fd.String:
		b.Of, b.At, b.Size = bpf.FieldText, fd.Offset, fd.Size
	case fd.Array || f.IsText:
		return nil, fmt.Errorf("%s is %s, which cannot be compared", fd.Name, fd.Type)
	default:
		b.At, b.Size, b.Signed = fd.Offset, fd.Size, fd.Signed
	}
	return b, nil
}
