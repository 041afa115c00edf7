package perfevent

import (
	"testing"

	"gperf/format"
)

// TestDoWithout checks that an older kernel's errors drop one feature after the other, newest
// first, for all later events.
func TestDoWithout(t *testing.T) {
	s := Set{}
	a := &format.Attr{ReadFormat: format.ReadLost, Flags: format.FlagBuildID}
	if !s.Missing.add(a) || a.ReadFormat&format.ReadLost != 0 || a.Flags&format.FlagBuildID == 0 {
		t.Errorf("first: read format %#x, flags %#x", a.ReadFormat, a.Flags)
	}
	if !s.Missing.add(a) || a.Flags&format.FlagBuildID != 0 {
		t.Errorf("second: flags %#x", a.Flags)
	}
	if s.Missing.add(a) {
		t.Error("a third feature is dropped")
	}
	if len(s.Missing) != 2 {
		t.Errorf("%d features are missing, want 2", len(s.Missing))
	}
}

// TestDoWithoutInheritedCounts checks that counts in samples cost only the inheritance of their own event, and no other
// feature.
func TestDoWithoutInheritedCounts(t *testing.T) {
	s := Set{}
	counts := &format.Attr{ReadFormat: format.ReadLost, Flags: format.FlagInherit | format.FlagBuildID,
		SampleType: format.SampleRead}
	if !s.Missing.add(counts) || counts.Flags != format.FlagBuildID || counts.ReadFormat != format.ReadLost {
		t.Errorf("the event with counts: flags %#x, read format %#x", counts.Flags, counts.ReadFormat)
	}
	other := &format.Attr{ReadFormat: format.ReadLost, Flags: format.FlagInherit}
	if s.Missing.drop(other); other.Flags != format.FlagInherit || other.ReadFormat != format.ReadLost {
		t.Errorf("another event: flags %#x, read format %#x", other.Flags, other.ReadFormat)
	}
}
