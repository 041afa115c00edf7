package synth

import (
	"io/fs"
	"path/filepath"
	"strings"

	"gperf/format"
	"gperf/internal/procfs"
)

// Cgroups makes the records of the existing cgroups.
func (s *Synthesizer) Cgroups() error {
	root, err := procfs.Cgroups()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it was removed, or we have no permission
		}
		id, err := procfs.CgroupID(path)
		if err != nil {
			return nil
		}
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		g := format.Cgroup{CgroupID: id, Path: name}
		s.buf = g.Append(s.buf, s.opts.IDSize)
		return s.Flush(flushSize)
	})
}
