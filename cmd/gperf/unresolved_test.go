package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnresolved: files that addresses have no names of are told once, with what
// to do; memory and programs without samples are not.
func TestUnresolved(t *testing.T) {
	const pid = 4_000_125
	r := &recorder{attrs: 1}
	r.mmap(pid, 0x10000000, 0x1000, "/nowhere/program")
	r.mmap(pid, 0x20000000, 0x1000, "//anon")
	r.mmap(pid, 0x30000000, 0x1000, "/nowhere/unsampled")
	for ip := uint64(0); ip < 4; ip++ {
		r.chain(pid, 1, 0x10000000+ip)
		r.chain(pid, 1, 0x20000000+ip)
	}
	name := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(name, r.file(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"script", "report"} {
		_, stderr := gperf(t, command, "-i", name)
		if n := strings.Count(stderr, "/nowhere/program: no such file"); n != 1 || !strings.Contains(stderr, "addresses in 1 file ") ||
			!strings.Contains(stderr, "gperf archive") || strings.Contains(stderr, "anon") {
			t.Errorf("gperf %s says\n%s", command, stderr)
		}
	}
}
