package dso

import (
	"os"
	"testing"
)

// The kernel's code lies at its ips.
func TestKcore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: /proc/kcore cannot be read")
	}
	im, err := OpenKcore()
	if err != nil {
		t.Skip("this kernel has no /proc/kcore: ", err)
	}
	defer im.Close()
	if len(im.Loads()) == 0 {
		t.Fatal("no memory")
	}
	l := im.Loads()[0]
	off, ok := im.OffOfVaddr(l.Vaddr + 0x10)
	if !ok || off != l.Off+0x10 {
		t.Errorf("%#x lies at %#x, %t", l.Vaddr+0x10, off, ok)
	}
}
