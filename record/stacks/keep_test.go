package stacks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gperf/internal/dso"
)

// A file above the limit, or above the limit of other users' files, is counted once, and not held.
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
	if os.Geteuid() != 0 {
		return // all files belong to one owner
	}
	t.Setenv("SUDO_UID", "")
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	k = newKeeper()
	if k.hold(path, im, fileID{}); k.ofOthers() != 1 {
		t.Errorf("%d files of other users are held", k.ofOthers())
	}
	if k.drop(im.BuildID()); k.ofOthers() != 0 || len(k.held) != 0 {
		t.Errorf("%d files are held, %d of other users, after all were dropped", len(k.held), k.ofOthers())
	}
	k = newKeeper()
	k.held = slices.Repeat([]heldFile{{others: true}}, maxHeldOthers)
	if k.hold(path, im, fileID{}); len(k.held) != maxHeldOthers || k.kept.TooMany != 1 {
		t.Errorf("%d files are held, %d are too many: other users had all files that they may have", len(k.held),
			k.kept.TooMany)
	}
}
