package record

import (
	"fmt"
	"os"
	"testing"

	"gperf/internal/testutil/programs"
)

var shortProgram = programs.C("testdata/short.c", "-O2", "-fomit-frame-pointer")

// TestRecordShortProcesses checks that the stacks of processes that exit before BPF can know
// them are complete: by the tables of their files, which BPF knows, or from copies, with the mappings of their time.
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
	complete, copies := sum.Unwind.Complete, sum.Unwind.Copied
	if incomplete*allowed > complete || complete < 50 || copies == 0 {
		t.Errorf("%d stacks are complete, %d of the short processes or unknown ones incomplete; %d were copied",
			complete, incomplete, copies)
	}
	if kernelFindsFiles(t) && os.Getenv("GPERF_SLOW") == "" && copies > complete/2 {
		t.Errorf("%d of %d stacks were copied, although BPF knows the files of most", copies, complete)
	}
}

// kernelFindsFiles reports whether BPF can find the mappings of unknown processes.
func kernelFindsFiles(t *testing.T) bool {
	t.Helper()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(release), "%d.%d", &major, &minor); err != nil {
		t.Fatalf("%q: %v", release, err)
	}
	return major > 6 || major == 6 && minor >= 1
}
