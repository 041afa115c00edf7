package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchivePerfMap: names of code made at run time come along, also into an archive
// that is made of another.
func TestArchivePerfMap(t *testing.T) {
	const pid = 4_000_124 // near the kernel's limit: no process has it
	path := writePerfMap(t, pid)
	r := &recorder{attrs: 1}
	r.mmap(pid, 0x10000000, 0x300, "//anon")
	for ip := uint64(0x10000000); ip < 0x10000300; ip += 8 {
		r.chain(pid, 1, ip)
	}
	name := r.save(t)
	want, _ := gperf(t, "script", "-i", name)
	if !strings.Contains(want, "first function+0x8") {
		t.Fatalf("there are no names:\n%.1000s", want)
	}
	gperf(t, "archive", name)
	os.Remove(path)
	got, _ := gperf(t, "script", "-i", name+".zip")
	sameText(t, "names of "+path, got, want)
	again := filepath.Join(filepath.Dir(name), "again")
	gperf(t, "archive", "-i", name+".zip", "-o", again)
	got, _ = gperf(t, "script", "-i", again)
	sameText(t, "names of "+path+", archived twice", got, want)
}

// TestArchiveDirectory: a recording that is a directory.
func TestArchiveDirectory(t *testing.T) {
	const dir = "../../testdata/drops.perf.dir"
	out := filepath.Join(t.TempDir(), "x")
	want, _ := gperf(t, "script", "-i", dir)
	gperf(t, "archive", "-i", dir, "-o", out)
	got, _ := gperf(t, "script", "-i", out)
	sameText(t, "a directory's samples", got, want)
}
