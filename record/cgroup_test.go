package record

import (
	"testing"

	"gperf/format"
	"gperf/record/event"
)

// TestDisband checks that events that cannot be grouped are opened individually.
func TestDisband(t *testing.T) {
	command := Target{Command: []string{"true"}}
	group := []event.Event{{Name: "a", Type: format.TypeRaw, SampleRead: true, Weak: true},
		{Name: "b", Type: format.TypeRaw, SampleRead: true, Member: true, Terms: event.Terms{Period: 3}}, {Name: "c", Type: format.TypeSoftware}}
	opts := &Options{Events: group, Target: command}
	o := opener{opts: opts}
	o.events, o.attrs = opts.attrs()
	if o.attrs[0].ReadFormat&format.ReadGroup == 0 || o.attrs[1].Flags&format.FlagEnableOnExec != 0 || o.leader(1) != 0 || o.leader(2) != 2 {
		t.Fatalf("%+v", o.attrs)
	}
	told := false
	opts.Notice = func(error) { told = true }
	o.disband(0)
	for _, a := range o.attrs[:2] {
		if a.ReadFormat&format.ReadGroup != 0 || a.Flags&format.FlagEnableOnExec == 0 || a.Flags&format.FlagDisabled == 0 {
			t.Errorf("%+v", a)
		}
	}
	if o.leader(1) != 1 || !told {
		t.Errorf("leader %d, told %v", o.leader(1), told)
	}
}
