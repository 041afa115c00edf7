package record

import (
	"slices"
	"testing"

	"gperf/internal/testutil/programs"
)

var jitProgram = programs.C("testdata/jitdump.c", "-O2", "-fomit-frame-pointer")

// TestDWARFJITDump walks generated code by the call frame information in a jitdump, while the process generates more.
func TestDWARFJITDump(t *testing.T) {
	exe := jitProgram.Path(t)
	sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, exe, t.TempDir(), "run")
	found, other := 0, 0
	for _, chain := range chains(t, path, exe) {
		switch i := slices.Index(chain, "spin"); {
		case i < 0:
		case len(chain) > i+2 && chain[i+1] == "?" && chain[i+2] == "main":
			found++
		default:
			other++
		}
	}
	// Until the first table is available, and after each function that it lacks, stacks are walked by guesses.
	if found < 20 || other*5 > found {
		t.Errorf("%d samples, %d of them through generated code to main, %d others: %+v", sum.Samples, found, other,
			sum.Unwind)
	}
}
