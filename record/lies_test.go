package record

import (
	"slices"
	"testing"

	"gperf/bpf"
	"gperf/internal/testutil/programs"
)

var (
	liesProgram     = programs.C("testdata/liespython.c", "-O2", "-pthread")
	liesRubyProgram = programs.C("testdata/liesruby.c", "-O2", "-pthread")
)

// TestDWARFPythonLies records a program that pretends to be Python and lies: it costs names only.
func TestDWARFPythonLies(t *testing.T) {
	recordLies(t, liesProgram.Path(t), "_PyEval_EvalFrameDefault")
}

// TestDWARFRubyLies records a program that pretends to be Ruby and lies.
func TestDWARFRubyLies(t *testing.T) {
	recordLies(t, liesRubyProgram.Path(t), "rb_vm_exec")
}

// recordLies records a program that pretends to be an interpreter, whose function has a name.
func recordLies(t *testing.T, exe, function string) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, exe, "2")
	n := 0
	for _, chain := range chains(t, path, exe) {
		if slices.Contains(chain, function) && chain[len(chain)-1] == "_start" {
			n++
		}
	}
	c := &sum.Unwind.Interpreted
	if c.Named+c.Unnamed == 0 {
		t.Error("no interpreted frames: the program is not recognized")
	}
	if n < 50 || sum.Unwind.Early[bpf.EndInternal] > 0 {
		t.Errorf("%d of %d stacks: %+v", n, sum.Samples, sum.Unwind)
	}
	t.Logf("%d functions, %d frames with names, %d without", c.Functions, c.Named, c.Unnamed)
}
