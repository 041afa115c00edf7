package unwind

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// compile builds a program of testdata without frame pointers.
func compile(t *testing.T, src string, flags ...string) string {
	t.Helper()
	if strings.HasSuffix(src, ".cc") {
		return compileWith(t, "g++", src, flags...)
	}
	return compileWith(t, "gcc", src, flags...)
}

func compileWith(t *testing.T, cc, src string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("%s is missing", cc)
	}
	exe := filepath.Join(t.TempDir(), "prog")
	args := append([]string{"-O2", "-fomit-frame-pointer", "-pthread", "-o", exe, filepath.Join("testdata", src)},
		flags...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Skipf("%s cannot build %s: %v\n%s", cc, src, err, out)
	}
	return exe
}
