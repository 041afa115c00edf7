package format

// Group is an entry of the GROUP_DESC section: events that the kernel schedules together.
type Group struct {
	Name    string // "{anon_group}" if the user gave no name
	Leader  uint32 // index in File.Attrs
	Members uint32 // number of events, including the leader; they follow it in File.Attrs
}

// EventGroups returns the GROUP_DESC section.
func (f *File) EventGroups() ([]Group, bool) {
	return decoded(f, FeatureGroupDesc, reading(passGroups))
}

// Groups returns the groups of EventGroups whose events are all in File.Attrs, none of a damaged section.
func (f *File) Groups() (l []Group) {
	all, ok := f.EventGroups()
	for _, g := range all {
		if ok && uint64(g.Leader)+uint64(g.Members) <= uint64(len(f.Attrs)) {
			l = append(l, g)
		}
	}
	return l
}

// GroupDescSection encodes the GROUP_DESC section.
func GroupDescSection(groups []Group) Section {
	return sectionOf(FeatureGroupDesc, &groups, passGroups)
}

func passGroups(c *codec, l *[]Group) {
	listOf(c, l, func(c *codec, g *Group) {
		c.str(&g.Name)
		c.fields(&g.Leader, &g.Members)
	})
}
