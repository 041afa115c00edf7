package dso

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"gperf/internal/untrusted"
)

// isAt reports whether the file at path has the inode, and was not written after the recording.
func (i *Inode) isAt(path string) bool {
	f, err := untrusted.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Ino != i.Number || !i.onDevice(f, st.Dev) {
		return false
	}
	if i.Until != 0 && st.Mtim.Nano() > i.Until {
		return false
	}
	const getVersion = 0x80087601 // FS_IOC_GETVERSION of linux/fs.h, which some file systems do not support
	gen, err := unix.IoctlGetInt(int(f.Fd()), getVersion)
	return err != nil || i.Gen == 0 || uint32(gen) == uint32(i.Gen)
}

// numberOf returns a file's inode.
func numberOf(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// onDevice reports whether the inode of a file, which stat(2) reports to be on device dev, may be the recorded one.
// btrfs and overlayfs report other devices than mappings do, and devices without a disk get arbitrary numbers at
// each boot. But the inodes of a tmpfs are few, and are gone after a boot.
func (i *Inode) onDevice(f *os.File, dev uint64) bool {
	if unix.Major(dev) == i.Major && unix.Minor(dev) == i.Minor {
		return true
	}
	var fs unix.Statfs_t
	if unix.Major(dev) != 0 || unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return false
	}
	switch uint32(fs.Type) { // it is signed on some architectures
	case unix.OVERLAYFS_SUPER_MAGIC:
		return true
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return false
	}
	return i.Major == 0
}
