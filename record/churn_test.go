package record

import (
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"

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
	if kernelFindsFiles(t) && copies > complete/2 {
		t.Errorf("%d of %d stacks were copied, although BPF knows the files of most", copies, complete)
	}
}

// kernelFindsFiles reports whether BPF can find the mappings of unknown processes.
func kernelFindsFiles(t *testing.T) bool {
	t.Helper()
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var mm *btf.Struct
	if err := kernel.TypeByName("mm_struct", &mm); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(membersOf(mm), func(m btf.Member) bool { return m.Name == "mm_mt" })
}

// membersOf returns the fields of a struct, and of the structs without a name in it.
func membersOf(s *btf.Struct) (l []btf.Member) {
	for _, m := range s.Members {
		if in, ok := m.Type.(*btf.Struct); ok && m.Name == "" {
			l = append(l, membersOf(in)...)
		}
		l = append(l, m)
	}
	return l
}
