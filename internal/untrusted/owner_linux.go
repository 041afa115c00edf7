package untrusted

import (
	"io/fs"
	"syscall"
)

// OwnerOf returns the user ID of a file's owner. known is false for files that are not of this machine, and on systems
// other than Linux.
func OwnerOf(st fs.FileInfo) (uid uint32, known bool) {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}
