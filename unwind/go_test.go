package unwind

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// goDrops returns a Go program for a machine.
func goDrops(t *testing.T, goarch string) *dso.Image {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "drops")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", exe, "../internal/testutil/drops")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+goarch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("go cannot build: %v\n%s", err, out)
	}
	im, err := dso.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// Go's outermost functions have no caller, whatever their CFI says; and where
// morestack calls on another stack, the frame pointer decides.
func TestGoOutermost(t *testing.T) {
	im := goDrops(t, "amd64")
	table, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(im.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Rule{"runtime.goexit": ruleEntry, "runtime.mstart": ruleEntry, "runtime.rt0_go": ruleEntry,
		"runtime.morestack": ruleFP}
	for _, s := range symbols {
		name := strings.TrimSuffix(s.Name, ".abi0")
		rule, ok := want[name]
		if !ok {
			continue
		}
		delete(want, name)
		for at := s.Value; at < s.Value+s.Size; at++ {
			if r := table.Lookup(at); r != rule {
				t.Errorf("%s+%d: %v, want %v", s.Name, at-s.Value, r, rule)
				break
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("functions that the program does not have: %v", want)
	}
}
