package record

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var (
	flatProgram = programs.C("testdata/overwritten.c", "-O2", "-static")
	deepProgram = programs.C("testdata/overwritten.c", "-O2", "-static", "-DDEEP")
)

// TestRecordOverwritten checks that new processes of a file are walked with the table of what it contains now: its
// inode stays the same when another program is written into it.
func TestRecordOverwritten(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are in the assembly language of x86-64")
	}
	flat, deep := flatProgram.Path(t), deepProgram.Path(t)
	prog := filepath.Join(t.TempDir(), "prog")
	script := `for i in 1 2 3 4; do for from in "$1" "$2"; do
		cat "$from" >"$0" && chmod +x "$0" && for n in 1 2 3 4 5 6 7 8; do "$0"; done; done; done`
	sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, "sh", "-c", script, prog, flat, deep)
	content, err := os.ReadFile(deep) // the functions have the same addresses in both
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(prog, content, 0o755); err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, chain := range chains(t, path, prog) {
		if chain[0] == "work" {
			n[strings.Join(chain, " ")]++
		}
	}
	const end = " main __libc_start_call_main __libc_start_main _start"
	short, long := n["work"+end], n["work mid"+end]
	if all := short + long; all < 100 || len(n) > 2 || short < all*2/5 || long < all*2/5 {
		t.Errorf("stacks of work: %v; expected two, equally often: %+v", n, sum.Unwind)
	}
}
