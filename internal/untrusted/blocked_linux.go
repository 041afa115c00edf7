package untrusted

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mapFile matches the link to a mapped file.
var mapFile = regexp.MustCompile(`^/proc/([0-9]+)/map_files/([0-9a-f]+-[0-9a-f]+)$`)

// fileSystem returns a key for the file system of the file at path, and the mount point. It does not touch the file.
// The key is "" if files there do not depend on a server, or if the file system is unknown: links may lead elsewhere.
func fileSystem(path string) (key, name string) {
	if m := mapFile.FindStringSubmatch(path); m != nil {
		return mappedDevice(m[1], m[2])
	}
	dir, inside := "/proc/self", path
	if root := processRoot.FindString(path); root != "" {
		dir, inside = strings.TrimSuffix(strings.TrimSuffix(root, "/"), "/root"), path[len(root):]
	} else if abs, err := filepath.Abs(path); err == nil {
		inside = abs
	}
	text, err := os.ReadFile(dir + "/mountinfo")
	if err != nil {
		return "", ""
	}
	in := mountOf(parseMounts(string(text)), filepath.Clean("/"+inside))
	if in == nil || !in.isServed() {
		return "", ""
	}
	return in.device, in.point
}

// remote are the types of file systems with a server: of linux/magic.h, and of the sources of Ceph and Lustre.
var remote = []int64{unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
	unix.SMB2_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC,
	unix.CEPH_SUPER_MAGIC, 0x0bd00bd0}

func isRemote(file *os.File) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(file.Fd()), &st)
	return err == nil && slices.Contains(remote, int64(uint32(st.Type)))
}

// mappedDevice is fileSystem of a file that a process maps at a range of addresses.
func mappedDevice(pid, at string) (key, name string) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%s/maps", pid))
	mounts, errMounts := os.ReadFile(fmt.Sprintf("/proc/%s/mountinfo", pid))
	if err != nil || errMounts != nil {
		return "", ""
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line) // range, rights, offset, device, inode
		if len(f) < 5 || f[0] != at {
			continue
		}
		var major, minor int
		fmt.Sscanf(f[3], "%x:%x", &major, &minor)
		device := fmt.Sprintf("%d:%d", major, minor)
		for _, m := range parseMounts(string(mounts)) {
			if m.device == device && m.isServed() {
				return device, m.point
			}
		}
	}
	return "", ""
}
