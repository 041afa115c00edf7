package main

import (
	"fmt"
	"os"
	"testing"

	"gperf/internal/dso"
)

// perfMapText is the perf map of a process for code at 0x10000000, well-behaved or not. (Of names without a size perf
// prints no sensible offset. Addresses that several lines list are a difference: TestPerfMapReused.)
const perfMapText = `10000000 40 first function
0x10000040 0x40 LazyCompile:~hex 0x file.js:1:2
10000080 40 ab
100000c0 40 abc
10000100 100 outer

garbage
10000200
10000200 40
10000240 40  two spaces
`

// writePerfMap writes the map of a process that there is not, until the test ends.
func writePerfMap(t *testing.T, pid int32) (path string) {
	t.Helper()
	path = dso.PerfMap(pid)
	if _, err := os.Stat(path); err == nil {
		t.Skipf("%s is there already", path)
	}
	if err := os.WriteFile(path, []byte(perfMapText), 0o644); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	return path
}

// Code made at run time gets the same names as in perf.
func TestPerfMapNames(t *testing.T) {
	o := needOracle(t)
	const pid = 4_000_123 // near the kernel's limit: no process gets it
	path := writePerfMap(t, pid)
	r := &recorder{attrs: 1}
	for i, name := range []string{"//anon", "/dev/zero (deleted)", "/SYSV00000000 (deleted)"} {
		r.mmap(pid, 0x10000000+uint64(i)*0x100, 0x100, name)
	}
	for ip := uint64(0x10000000); ip < 0x10000300; ip += 8 {
		r.chain(pid, 1, ip)
	}
	recording := r.save(t)
	want, err := o.run(t, "script", "-f", "--no-inline", "-F", "ip,sym,symoff,dso", "-i", recording)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := gperf(t, "script", "-f", "--compat", o.compat, "-F", "ip,sym,symoff,dso", "-i", recording)
	sameText(t, fmt.Sprintf("names of %s", path), got, want)
}
