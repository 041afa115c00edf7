package dso

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// SpareSpace returns how many bytes gperf may add in one file to the file system of a directory, which need not exist
// yet.
func SpareSpace(dir string) int64 {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		parent := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || parent == dir {
			return spare(int64(st.Bavail)*int64(st.Bsize), int64(st.Blocks)*int64(st.Bsize)) // 0 after an error
		}
		dir = parent
	}
}
