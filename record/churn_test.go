package record

import (
	"os"
	"testing"

	"gperf/internal/testutil/programs"
)

var shortProgram = programs.C("testdata/short.c", "-O2", "-fomit-frame-pointer")

// TestRecordShortProcesses checks that the stacks of processes that exit before BPF can know
// them are complete: they are walked from copies, with the mappings of their time.
func TestRecordShortProcesses(t *testing.T) {
	exe := shortProgram.Path(t)
	sum, _ := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}, Target: Target{All: true}}, exe, "300")
	incomplete := uint64(0)
	for _, i := range sum.Unwind.Incomplete {
		if i.Program == exe || i.Program == "" {
			incomplete += i.N
			t.Logf("%d incomplete: %v in %q of %q", i.N, i.Cause, i.DSO, i.Program)
		}
	}
	allowed := uint64(100)             // one part in allowed may be incomplete
	if os.Getenv("GPERF_SLOW") != "" { // the recorder takes too long to make room for copies
		allowed = 25
	}
	copies := sum.Unwind.Copied
	if complete := sum.Unwind.Complete; incomplete*allowed > complete || copies < 20 {
		t.Errorf("%d stacks are complete, %d of the short processes or unknown ones incomplete; %d were copied",
			complete, incomplete, copies)
	}
}
