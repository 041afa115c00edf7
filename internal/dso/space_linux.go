package dso

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeSpace returns how many bytes may still be written to the file system of a directory, which need not exist yet.
func FreeSpace(dir string) int64 {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return int64(st.Bavail) * st.Bsize // 0 after an error
		}
		dir = parent
	}
}
