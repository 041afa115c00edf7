package untrusted

import (
	"testing"

	"gperf/internal/procfs"
)

func TestIsServed(t *testing.T) {
	for typ, want := range map[string]bool{"ext4": false, "overlay": false, "tmpfs": false, "nfs4": true, "fuse": true,
		"fuse.sshfs": true, "fused": false, "9p": true} {
		if got := isServed(&procfs.Mount{Type: typ}); got != want {
			t.Errorf("%s: %t", typ, got)
		}
	}
}
