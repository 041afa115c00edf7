package untrusted

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// realPath returns the path of an open file, without links, "" if that is unknown.
func realPath(file *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return ""
	}
	return path
}

// readableByAll reports whether every user can read an open file by path.
func readableByAll(file *os.File) bool {
	const read, search = 4, 1
	var st unix.Stat_t
	path := realPath(file)
	if unix.Fstat(int(file.Fd()), &st) != nil || st.Mode&read == 0 || !filepath.IsAbs(path) {
		return false
	}
	for path != "/" {
		path = filepath.Dir(path)
		if unix.Lstat(path, &st) != nil || st.Mode&search == 0 {
			return false
		}
	}
	return true
}
