package procfs

import (
	"fmt"
	"testing"
)

func TestParseMounts(t *testing.T) {
	l := parseMounts(`22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
53 28 0:44 / /mnt/a\040b rw shared:9 master:2 - nfs4 server:/x rw,vers=4.2
54 53 0:45 /sub /mnt/a\040b/c rw - fuse.sshfs host: rw,user_id=0
55 28 0:46 / /over rw - tmpfs none rw
56 28 0:47 / /over rw - fuse none rw
damaged
`)
	for path, want := range map[string]string{"/etc/passwd": "8:1 ext4", "/mnt/a b": "0:44 nfs4",
		"/mnt/a b/x/y": "0:44 nfs4", "/mnt/a bc": "8:1 ext4", "/mnt/a b/c/d": "0:45 fuse.sshfs", "/over/x": "0:47 fuse",
		"/sys/x": "0:21 sysfs"} {
		got := ""
		if m := MountOf(l, path); m != nil {
			got = fmt.Sprintf("%d:%d %s", m.Major, m.Minor, m.Type)
		}
		if got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
	if m := MountOf(nil, "/"); m != nil {
		t.Errorf("a mount of none: %v", m)
	}
}
