package dso

import (
	"os"
	"syscall"
)

// keepOwner gives a copy the owner of the file.
func keepOwner(out *os.File, st os.FileInfo) error {
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return out.Chown(int(owner.Uid), -1)
}
