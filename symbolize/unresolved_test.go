package symbolize

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gperf/internal/dso"
)

// DSOs without names are listed with the reason, unless they had no lookups.
func TestUnresolved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, testELF(), 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(Options{Locator: &dso.Locator{Tree: dso.Tree{BuildIDDir: dir, DebugDir: dir}},
		Kallsyms: filepath.Join(dir, "none")})
	id := dso.NewBuildID([]byte("another"))
	for off := range uint64(3) {
		s.User(dir+"/gone", dso.BuildID{}, off)
	}
	s.User(path, id, 0)
	sym := &s.userSymbols.dso(path, dso.BuildID{}).table.entries[0]
	s.User(path, dso.BuildID{}, sym.start)
	s.User(path, dso.BuildID{}, 1<<60)
	s.Kernel(1 << 63)
	s.Kernel(1<<63 + 1)
	if s.Problem(dir+"/unasked", dso.BuildID{}) == nil {
		t.Error("what is not there has symbols")
	}
	want := []Unresolved{
		{Path: dir + "/gone", Missing: 3, Asked: 3, Reason: NoFile, Err: dso.ErrNoFile},
		{Path: dso.KernelName, Missing: 2, Asked: 2, Reason: NoFile, Err: os.ErrNotExist},
		{Path: path, Missing: 1, Asked: 2, Reason: NoSymbol},
		{Path: path, ID: id, Missing: 1, Asked: 1, Reason: Mismatch, Err: dso.ErrNoBuildID},
	}
	got := s.Unresolved()
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, u := range got {
		w := want[i]
		if !errors.Is(u.Err, w.Err) {
			t.Errorf("%s: error %v, want %v", u.Path, u.Err, w.Err)
		}
		if u.Err, w.Err = nil, nil; u != w {
			t.Errorf("%+v, want %+v", u, w)
		}
	}
}
