package format

import "testing"

// TestGroups checks that groups of events outside the file are omitted.
func TestGroups(t *testing.T) {
	b := []byte{2, 0, 0, 0}
	for _, leader := range []byte{1, 2} {
		b = append(b, 4, 0, 0, 0, 'g', 0, 0, 0, leader, 0, 0, 0, 2, 0, 0, 0)
	}
	f := &File{Order: LittleEndian, Attrs: make([]Attr, 3), Sections: map[Feature][]byte{FeatureGroupDesc: b}}
	if got := f.Groups(); len(got) != 1 || got[0] != (Group{"g", 1, 2}) {
		t.Errorf("got %+v", got)
	}
	f.Sections[FeatureGroupDesc] = b[:len(b)-2]
	if got := f.Groups(); got != nil {
		t.Errorf("truncated section: got %+v", got)
	}
}
