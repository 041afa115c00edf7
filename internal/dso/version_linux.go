package dso

import (
	"fmt"
	"io/fs"
	"syscall"
)

// versionOf returns the file's device, inode, owner and ctime in ns. The ctime is the kernel's: other than the mtime,
// an owner cannot set it back.
func versionOf(st fs.FileInfo, path string) string {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return path
	}
	return fmt.Sprint(s.Dev, s.Ino, s.Uid, s.Ctim.Nano())
}
