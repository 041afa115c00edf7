package synth

import (
	"encoding/binary"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/procfs"
)

// Cgroups makes the records of the existing cgroups. A cgroup's ID is the kernel's file handle of
// its directory.
func (s *Synthesizer) Cgroups() error {
	root, err := procfs.Cgroups()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it was removed, or we have no permission
		}
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
		if err != nil || h.Size() < 8 {
			return nil
		}
		name := "/" + strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		g := format.Cgroup{CgroupID: binary.LittleEndian.Uint64(h.Bytes()), Path: name}
		s.buf = g.Append(s.buf, s.opts.IDSize)
		return s.Flush(flushSize)
	})
}
