package dso

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestKeepGenerated: a kept perf map is found by the recording that it was kept for, and by no other one.
func TestKeepGenerated(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	const pid, text = 1 << 30, "1000 10 compiled\n" // no process uses this PID
	path := filepath.Join(t.TempDir(), "perf-1.map")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var kept Kept
	for _, name := range []string{"/tmp/perf-%d.map", "/../../jit-1.dump"} {
		if err := kept.KeepGenerated(GeneratedDir("one"), Generated{pid, name, file}); err != nil {
			t.Fatal(err)
		}
		got, err := (&Locator{Generated: GeneratedDir("one")}).OpenOf(pid, name)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(got); string(b) != text || err != nil {
			t.Errorf("%s: got %q, error %v", name, b, err)
		}
		got.Close()
		for _, other := range []string{"", GeneratedDir("other")} {
			if _, err := (&Locator{Generated: other}).OpenOf(pid, name); err == nil {
				t.Errorf("%s: a locator with %q finds the copy", name, other)
			}
		}
	}
	if kept.Generated != 2 || kept.Bytes != 2*int64(len(text)) {
		t.Errorf("got %+v", kept)
	}
	if left, _ := filepath.Glob(filepath.Join(GeneratedDir("one"), "*", "*")); len(left) != 2 {
		t.Errorf("the copies are %v", left)
	}
}
