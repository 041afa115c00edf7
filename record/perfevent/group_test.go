package perfevent

import (
	"testing"

	"gperf/format"
	"gperf/record/event"
)

// TestDisband checks that events that cannot be grouped are opened individually.
func TestDisband(t *testing.T) {
	group := []event.Event{{Name: "a", Type: format.TypeRaw, SampleRead: true, Weak: true},
		{Name: "b", Type: format.TypeRaw, SampleRead: true, Member: true, Terms: event.Terms{Period: 3}}, {Name: "c", Type: format.TypeSoftware}}
	leader := format.Attr{ReadFormat: format.ReadGroup, Flags: format.FlagDisabled | format.FlagEnableOnExec}
	s := Set{Events: group, Attrs: []format.Attr{leader, {ReadFormat: format.ReadGroup}, {}}}
	if s.leader(1) != 0 || s.leader(2) != 2 {
		t.Fatalf("leaders %d and %d", s.leader(1), s.leader(2))
	}
	warned := false
	s.Notice = func(error) { warned = true }
	s.disband(0)
	for _, a := range s.Attrs[:2] {
		if a.ReadFormat&format.ReadGroup != 0 || a.Flags&format.FlagEnableOnExec == 0 ||
			a.Flags&format.FlagDisabled == 0 {
			t.Errorf("%+v", a)
		}
	}
	if s.leader(1) != 1 || !warned {
		t.Errorf("leader %d, warned %v", s.leader(1), warned)
	}
}
