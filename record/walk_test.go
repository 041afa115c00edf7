package record

import (
	"context"
	"debug/elf"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/testutil/programs"
	"gperf/record/event"
	"gperf/record/probe"
)

// testdata/stacks.c compiled without frame pointers.
var (
	stackProgram  = buildStacks()
	staticProgram = buildStacks("-static")
	pieProgram    = buildStacks("-static-pie")
)

func buildStacks(flags ...string) *programs.Program {
	return programs.C("testdata/stacks.c", append(flags, "-O2", "-fomit-frame-pointer",
		"-fno-optimize-sibling-calls", "-pthread")...)
}

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }

// recordDWARF records a command in user space, and skips the test if that needs more
// privileges.
func recordDWARF(t *testing.T, opts Options, argv ...string) (*Summary, string) {
	t.Helper()
	events, err := event.Parse("cpu-clock:u", &event.Resolver{Resolver: new(probe.Resolver)})
	if err != nil {
		t.Fatal(err)
	}
	opts.Output.Path = filepath.Join(t.TempDir(), "perf.data")
	opts.Events, opts.Target.Command, opts.Freq = events, argv, 999
	var why error // not walked in the kernel
	opts.Notice = func(what error) {
		if u := (*UnwindError)(nil); errors.As(what, &u) {
			why = what
		}
	}
	var mu sync.Mutex
	var said []string
	opts.Verbose = func(msg string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, msg)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(said, "\n"))
		}
	})
	sum, err := Run(context.Background(), &opts)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(why, unix.EPERM) {
		t.Skipf("CAP_PERFMON and CAP_BPF are missing: %v %v", err, why)
	}
	if err != nil || why != nil {
		t.Fatal(err, why)
	}
	if sum.Command.ExitCode() != 0 {
		t.Fatalf("%q: %v", argv, sum.Command)
	}
	return sum, opts.Output.Path
}

// chains returns the user stacks of a file, innermost first: functions of the program exe,
// and ? for other addresses.
func chains(t *testing.T, path, exe string) (l [][]string) {
	t.Helper()
	names := functions(t, exe)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(file, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range f.Attrs {
		if a.Flags&format.FlagExcludeCallchainUser != 0 || a.Config == format.SWBPFOutput {
			t.Errorf("the file has attr %+v", a)
		}
	}
	var at format.Mmap
	recs := f.Records()
	for raw, err := recs.Next(); err == nil; raw, err = recs.Next() {
		if raw.Type != format.TypeSample {
			if m, err := f.Record(raw); err == nil {
				if m, ok := m.(*format.Mmap); ok && m.Filename == exe && m.Executable() {
					at = *m
				}
			}
			continue
		}
		var s format.Sample
		if err := f.Sample(raw, &s); err != nil {
			t.Fatal(err)
		}
		var chain []string
		for i := range s.Callchain.Len() {
			ip := s.Callchain.At(i)
			if ip >= format.ContextMax {
				continue
			}
			if len(chain) > 0 {
				ip-- // a return address
			}
			name := "?"
			if ip >= at.Start && ip < at.Start+at.Len {
				name = names(ip - at.Start + at.Pgoff)
			}
			chain = append(chain, name)
		}
		l = append(l, chain)
	}
	return l
}

// functions returns a function that names the function at a file offset.
func functions(t *testing.T, exe string) func(off uint64) string {
	t.Helper()
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	progs := f.Progs
	return func(off uint64) string {
		for _, p := range progs {
			if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || off < p.Off || off >= p.Off+p.Filesz {
				continue
			}
			vaddr := off - p.Off + p.Vaddr
			for _, s := range syms {
				if elf.ST_TYPE(s.Info) == elf.STT_FUNC && vaddr >= s.Value && vaddr < s.Value+s.Size {
					return strings.TrimSuffix(s.Name, "_impl") // __libc_start_main's other name
				}
			}
		}
		return "?"
	}
}

// TestDWARFStacks checks that stacks without frame pointers are complete, for different kinds
// of frames.
func TestDWARFStacks(t *testing.T) {
	exe, static, pie := stackProgram.Path(t), staticProgram.Path(t), pieProgram.Path(t)
	recursed := func(n int, rest ...string) []string {
		return append(slices.Repeat([]string{"recurse"}, n+1), rest...)
	}
	for _, c := range []struct {
		name string
		argv []string
		// want is the chain between spin and _start, without frames of other files.
		want []string
		// alike is set of a case that says little more than another one.
		alike bool
	}{
		{"recursion", []string{exe, "recurse", "30"}, recursed(30, "main", "_start"), true},
		{"deep recursion", []string{exe, "recurse", "1000"}, recursed(1000, "main", "_start"), false},
		{"static", []string{static, "recurse", "30"}, recursed(30, "main", "__libc_start_call_main", "__libc_start_main", "_start"), true},
		{"static-pie", []string{pie, "recurse", "30"}, recursed(30, "main", "__libc_start_call_main", "__libc_start_main", "_start"), true},
		{"variable-length arrays", []string{exe, "vla"}, []string{"vla", "main", "_start"}, true},
		{"signal handler", []string{exe, "signalled"}, []string{"handler", "signalled", "main", "_start"}, false},
		{"handler on its own stack", []string{exe, "altstack"}, []string{"handler", "signalled", "altstack", "main", "_start"}, true},
		{"interrupted anywhere", []string{exe, "interrupted"}, []string{"last", "spin", "interrupted", "main", "_start"}, false},
		{"through a library", []string{exe, "library"}, []string{"compare", "library", "main", "_start"}, true},
		{"thread", []string{exe, "thread"}, []string{"thread_body", "thread_start"}, false},
		{"vfork", []string{exe, "child"}, []string{"child", "main", "_start"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.alike && testing.Short() {
				t.Skip("short mode")
			}
			sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, c.argv...)
			u := sum.Unwind
			// Until a table is available, stacks are copied, and a copy cannot hold a deep
			// stack; how long that takes depends on the machine.
			// A deep stack takes 8 KB of a ring: if the recorder gets no CPU time for 60 ms, some do not fit where
			// their samples do.
			lost := sum.Lost + sum.LostRecords
			if u == nil || u.Missing > 0 && lost == 0 ||
				u.Complete*100 < (sum.Samples-u.Missing-u.Early[bpf.EndNoTable])*95 {
				t.Errorf("%d samples, %d lost: %+v", sum.Samples, lost, u)
			}
			found, others := 0, map[string]int{}
			for _, chain := range chains(t, path, c.argv[0]) {
				i := slices.Index(chain, "spin")
				if i < 0 {
					continue
				}
				own := slices.DeleteFunc(chain[i+1:], func(s string) bool {
					return s == "?" || strings.Contains(s, "raise") || strings.Contains(s, "kill")
				})
				if slices.Equal(own, c.want) {
					found++
				} else {
					others[strings.Join(own[:min(len(own), 20)], " ")]++
				}
			}
			if found*10 < int(sum.Samples)*3 {
				t.Errorf("%d of %d samples have the stack spin %q; others: %v", found, sum.Samples, c.want, others)
			}
		})
	}
}

// TestDWARFTooDeep checks that a stack with too many frames is truncated, and counted in the
// summary.
func TestDWARFTooDeep(t *testing.T) {
	exe := stackProgram.Path(t)
	sum, path := recordDWARF(t, Options{Stacks: StackOptions{DWARF: true}}, exe, "recurse", "1500")
	spins, cut := 0, 0
	for _, chain := range chains(t, path, exe) {
		if len(chain) > bpf.MaxFrames {
			t.Fatalf("a chain of %d frames", len(chain))
		}
		if len(chain) == bpf.MaxFrames {
			cut++
		}
		if slices.Contains(chain, "spin") {
			spins++
		}
	}
	// While the process or its tables are unknown, a copy is walked, which has fewer frames.
	early := sum.Unwind.Early
	walked := spins - int(early[bpf.EndNoProcess]+early[bpf.EndNoTable])
	if cut != int(early[bpf.EndDepth]) || cut == 0 || cut*10 < walked*9 {
		t.Errorf("%d of %d chains at the bottom are cut: %+v", cut, spins, sum.Unwind)
	}
}

// TestStackDump checks that stack dumps are written to the file as perf writes them.
func TestStackDump(t *testing.T) {
	exe := stackProgram.Path(t)
	_, path := recordDWARF(t, Options{Stacks: StackOptions{StackDump: 4096}}, exe, "vla")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	st, _ := file.Stat()
	f, err := format.Open(file, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	recs := f.Records()
	for raw, err := recs.Next(); err == nil; raw, err = recs.Next() {
		var s format.Sample
		if raw.Type != format.TypeSample || f.Sample(raw, &s) != nil {
			continue
		}
		if len(s.UserStack) > 0 && s.UserRegs.Len() == bits.OnesCount64(userRegs[runtime.GOARCH]) {
			n++
		}
	}
	if n < 10 {
		t.Errorf("%d samples with registers and stack", n)
	}
}
