package format

import "encoding/binary"

// Group is an entry of the GROUP_DESC section: events that the kernel schedules together.
type Group struct {
	Name    string // "{anon_group}" if the user gave no name
	Leader  uint32 // index in File.Attrs
	Members uint32 // number of events, including the leader; they follow it in File.Attrs
}

// Groups returns the GROUP_DESC section. It omits entries that refer to events outside
// File.Attrs.
func (f *File) Groups() []Group {
	list, ok, _ := feature(f, FeatureGroupDesc, func(c *cursor) (l []Group) {
		for n := c.u32(); n > 0 && !c.short; n-- {
			g := Group{Name: c.str(), Leader: c.u32(), Members: c.u32()}
			if !c.short && uint64(g.Leader)+uint64(g.Members) <= uint64(len(f.Attrs)) {
				l = append(l, g)
			}
		}
		return l
	})
	if !ok {
		return nil
	}
	return list
}

// GroupDescSection encodes the GROUP_DESC section.
func GroupDescSection(groups []Group) Section {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(groups)))
	for _, g := range groups {
		b = appendString(b, g.Name)
		b = binary.LittleEndian.AppendUint32(b, g.Leader)
		b = binary.LittleEndian.AppendUint32(b, g.Members)
	}
	return Section{FeatureGroupDesc, b}
}
