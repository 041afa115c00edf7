package record

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

// overwritten are pairs of programs whose functions have the same addresses.
var overwritten = []struct {
	name       string
	flat, deep *programs.Program
}{
	{"with build IDs", programs.C("testdata/overwritten.c", "-O2", "-static"),
		programs.C("testdata/overwritten.c", "-O2", "-static", "-DDEEP")},
	{"without", programs.C("testdata/overwritten.c", "-O2", "-static", "-Wl,--build-id=none"),
		programs.C("testdata/overwritten.c", "-O2", "-static", "-Wl,--build-id=none", "-DDEEP")},
}

// TestRecordOverwritten checks that new processes of a file are walked with the table of what it contains now: its
// inode stays the same when another program is written into it.
func TestRecordOverwritten(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are in the assembly language of x86-64")
	}
	for _, c := range overwritten {
		t.Run(c.name, func(t *testing.T) { recordOverwritten(t, c.flat.Path(t), c.deep.Path(t)) })
	}
}

func recordOverwritten(t *testing.T, flat, deep string) {
	prog := filepath.Join(t.TempDir(), "prog")
	script := `for i in 1 2 3 4; do for from in "$1" "$2"; do
		cat "$from" >"$0" && chmod +x "$0" && for n in 1 2 3 4 5 6 7 8; do "$0"; done; done; done`
	sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, "sh", "-c", script, prog, flat, deep)
	content, err := os.ReadFile(deep)
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
	short, long, incomplete := n["work"+end], n["work mid"+end], n["work"]
	all := short + long + incomplete
	if all < 100 || short < all*2/5-incomplete || long < all*2/5-incomplete || incomplete > all/2 {
		t.Errorf("stacks of work: %v; expected two, equally often: %+v", n, sum.Unwind)
	}
	delete(n, "work"+end)
	delete(n, "work mid"+end)
	delete(n, "work") // of processes that ended before another program was written: it is not known what they ran
	if len(n) > 0 {
		t.Errorf("stacks of work that are wrong: %v", n)
	}
}
