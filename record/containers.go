package record

import (
	"os"

	"gperf/format"
	"gperf/internal/container"
)

// containerNames are the names of containers and pods since the recording began.
type containerNames struct{ list *container.NameList }

// read adds the names that the runtimes' files have now.
func (n *containerNames) read() {
	now := container.Names(os.DirFS("/"))
	if n.list == nil {
		n.list = now
	} else {
		n.list.Add(now)
	}
}

// section reads the names again, and returns the section with all.
func (n *containerNames) section() format.Section {
	n.read()
	return format.Section{Feature: format.FeatureNames, Data: n.list.Encode()}
}
