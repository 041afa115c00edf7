package untrusted

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// remote are the types of file systems whose files another machine or program serves, with their numbers of statfs(2)
// (of linux/magic.h, and of the sources of Lustre). Reads are not limited where there is none: of a virtual machine's
// host, or of a disk that the machines of a cluster share.
var remote = map[string][]int64{
	"fuse": {unix.FUSE_SUPER_MAGIC}, "fuseblk": {unix.FUSE_SUPER_MAGIC},
	"nfs": {unix.NFS_SUPER_MAGIC}, "nfs4": {unix.NFS_SUPER_MAGIC},
	"cifs": {unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC}, "smb3": {unix.SMB2_SUPER_MAGIC},
	"afs": {unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC}, "coda": {unix.CODA_SUPER_MAGIC},
	"ceph": {unix.CEPH_SUPER_MAGIC}, "ocfs2": {unix.OCFS2_SUPER_MAGIC}, "lustre": {0x0bd00bd0},
	"9p": nil, "autofs": nil, "gfs2": nil, "orangefs": nil,
}

// isRemote reports whether a server has an open file.
func isRemote(file *os.File) bool {
	var st unix.Statfs_t
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	var failed error // Control lets the caller close the file meanwhile
	if conn.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &st) }) != nil || failed != nil {
		return false
	}
	for _, magics := range remote {
		if slices.Contains(magics, int64(uint32(st.Type))) {
			return true
		}
	}
	return false
}

// isServed reports whether files of a mount may not answer.
func isServed(m *procfs.Mount) bool {
	typ, _, _ := strings.Cut(m.Type, ".") // fuse.sshfs
	_, ok := remote[typ]
	return ok
}

// threadID returns the number of the calling thread.
func threadID() int32 { return int32(unix.Gettid()) }

// sleepOf returns the system call in which a thread sleeps, with the arguments, which is the same for the same call; ""
// if it runs, waits for a CPU, or sleeps outside of calls on files. It is a variable for tests.
var sleepOf = func(thread int32) string {
	if thread == 0 {
		return ""
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", thread))
	if err != nil {
		return err.Error() // an unknown state counts as sleep
	}
	switch nr, _, _ := strings.Cut(string(text), " "); nr {
	case "running\n", "-1", strconv.Itoa(unix.SYS_FUTEX): // Go's scheduler sleeps in futex
		return ""
	}
	return string(text)
}

// mapFile matches the link to a mapped file.
var mapFile = regexp.MustCompile(`^/proc/([0-9]+)/map_files/([0-9a-f]+)-[0-9a-f]+$`)

// fileSystem returns a key for the file system of the file at path, and the mount point. It does not touch the file.
// The key is "" if files there do not depend on a server, or if the file system is unknown: links may lead elsewhere.
func fileSystem(path string) (key, name string) {
	var in *procfs.Mount
	if m := mapFile.FindStringSubmatch(path); m != nil {
		in = mountOfMapped(m[1], m[2])
	} else {
		in = mountOf(path)
	}
	if in == nil || !isServed(in) {
		return "", ""
	}
	return fmt.Sprintf("%d:%d", in.Major, in.Minor), in.Point
}

// mountOf returns the mount of the file at path, nil if it is unknown.
func mountOf(path string) *procfs.Mount {
	pid, inside := os.Getpid(), path
	if root := processRoot.FindString(path); root != "" {
		pid, _ = strconv.Atoi(strings.Split(root, "/")[2])
		inside = path[len(root):]
	} else if abs, err := filepath.Abs(path); err == nil {
		inside = abs
	}
	mounts, err := procfs.Mounts(pid)
	if err != nil {
		return nil
	}
	return procfs.MountOf(mounts, filepath.Clean("/"+inside))
}

// mountOfMapped returns a mount of the file that a process maps at an address, nil if it is unknown.
func mountOfMapped(process, at string) *procfs.Mount {
	pid, _ := strconv.Atoi(process)
	start, _ := strconv.ParseUint(at, 16, 64)
	maps, err := procfs.Maps(pid)
	mounts, errMounts := procfs.Mounts(pid)
	if err != nil || errMounts != nil {
		return nil
	}
	for m := range maps {
		same := func(in procfs.Mount) bool { return in.Major == m.Major && in.Minor == m.Minor }
		if i := slices.IndexFunc(mounts, same); i >= 0 && m.Start == start {
			return &mounts[i]
		}
	}
	return nil
}
