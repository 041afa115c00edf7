package stacks

import (
	"os"
	"path/filepath"
	"testing"

	"gperf/internal/dso"
)

// A file above the limit is counted once, and not held.
func TestKeepTooMany(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe") // a copy of it: the running program itself is not kept
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, own, 0o755); err != nil {
		t.Fatal(err)
	}
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	if im.BuildID().IsZero() {
		t.Skip("this version of Go gives programs no build ID")
	}
	k := newKeeper()
	k.held = make([]heldFile, maxHeld)
	for range 2 {
		k.hold(path, im, fileID{})
	}
	if len(k.held) != maxHeld || k.kept.TooMany != 1 {
		t.Errorf("%d files are held, %d are too many", len(k.held), k.kept.TooMany)
	}
	k = newKeeper()
	if k.hold(path, im, fileID{}); len(k.held) != 1 || k.kept.TooMany != 0 {
		t.Errorf("%d files are held, %d are too many", len(k.held), k.kept.TooMany)
	}
}
