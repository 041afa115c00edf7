package unwind

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// TestInfer infers the frames of assembly.
func TestInfer(t *testing.T) {
	im, err := dso.Open(compileWith(t, "gcc", "nocfi.S", "-nostdlib", "-static", "-no-pie"))
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	table, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"start_end":        "end",
		"pushes_entry":     "cfa=rsp+8 ra=c-8 fp=s inferred",
		"pushes_body":      "cfa=rsp+128 ra=c-8 fp=c-24 inferred",
		"pushes_switch":    "cfa=rsp+128 ra=c-8 fp=c-24 inferred",
		"case0":            "cfa=rsp+128 ra=c-8 fp=c-24 inferred",
		"case1":            "cfa=rsp+128 ra=c-8 fp=c-24 inferred",
		"pushes_popped":    "cfa=rsp+16 ra=c-8 fp=s inferred",
		"aligned_body":     "cfa=rbp+16 ra=c-8 fp=c-16 inferred",
		"aligned_returned": "cfa=rbp+16 ra=c-8 fp=c-16 inferred",
		"aligned_left":     "cfa=rsp+8 ra=c-8 fp=s inferred",
		"thread_child":     "end",
		"thread_parent":    "cfa=rsp+8 ra=c-8 fp=s inferred",
		// Functions that return after they have cleared rbp have a caller.
		"clears_body":        "cfa=rsp+8 ra=c-8 fp=u inferred",
		"clears_pushed":      "cfa=rsp+16 ra=c-8 fp=u inferred",
		"clears_jumps_body":  "cfa=rsp+8 ra=c-8 fp=u inferred",
		"clears_switch_body": "cfa=rsp+8 ra=c-8 fp=u inferred",
		"referenced_body":    "cfa=rsp+16 ra=c-8 fp=s inferred",
		"bad":                "none", // its stack grows in a loop
	}
	functions(im, func(s *symbol) {
		rule, ok := want[string(s.name)]
		if !ok {
			return
		}
		delete(want, string(s.name))
		if got := table.Lookup(s.value).String(); got != rule {
			t.Errorf("%s: %s, want %s", s.name, got, rule)
		}
	})
	if len(want) > 0 {
		t.Errorf("labels that the program does not have: %v", want)
	}
}

// TestPLTRows compares the rules of the PLT of a file without CFI for it with the words that its instructions push.
func TestPLTRows(t *testing.T) {
	for _, c := range []struct {
		section string
		flags   []string
		want    map[uint64]string // by offset in the section
	}{
		{".plt", []string{"-fuse-ld=mold"}, map[uint64]string{0: "cfa=rsp+8", 4: "cfa=rsp+8", 6: "cfa=rsp+16", 12: "cfa=rsp+24",
			32: "cfa=rsp+8", 42: "cfa=rsp+8", 58: "cfa=rsp+8"}},
		{".plt", []string{"-static", "-no-pie"}, map[uint64]string{0: "cfa=rsp+8", 8: "cfa=rsp+8", 24: "cfa=rsp+8"}},
		{".iplt", []string{"-static", "-no-pie", "-fuse-ld=lld"}, map[uint64]string{0: "cfa=rsp+8", 16: "cfa=rsp+8"}},
		{".plt", []string{"-fuse-ld=lld"}, map[uint64]string{0: "cfa=rsp+16", 6: "cfa=rsp+24", 16: "cfa=plt(11)+8"}},
	} {
		t.Run(strings.Join(c.flags, " "), func(t *testing.T) {
			im, err := dso.Open(compileWith(t, "gcc", "step.c", c.flags...))
			if err != nil {
				t.Fatal(err)
			}
			defer im.Close()
			s := im.Section(c.section)
			if s == nil {
				t.Fatalf("no %s", c.section)
			}
			table, err := Build(im)
			if err != nil {
				t.Fatal(err)
			}
			for off, want := range c.want {
				if got := table.Lookup(s.Addr + off).String(); !strings.HasPrefix(got, want+" ") {
					t.Errorf("%s+%d: %s, want %s", c.section, off, got, want)
				}
			}
		})
	}
}

// TestStartContext: functions of makecontext return to code without a caller.
func TestStartContext(t *testing.T) {
	im, err := dso.Open("/usr/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		t.Skip(err)
	}
	defer im.Close()
	f, err := NewCFI(im)
	if err != nil {
		t.Skip(err)
	}
	table, err := Build(im)
	if err != nil {
		t.Fatal(err)
	}
	k := fiberFinder{f, im}.startContext()
	if len(k) != 1 {
		t.Skip("this C library has another __start_context")
	}
	for at := k[0].start; at < k[0].end; at++ {
		if r := table.Lookup(at); r != ruleFiber {
			t.Errorf("%#x: %v", at, r)
		}
	}
}

// FuzzInfer infers frames of any code: the rules are in order, and inside the code.
func FuzzInfer(f *testing.F) {
	f.Add([]byte("\x55\x48\x89\xe5\x48\x83\xec\x20\xe8\x00\x00\x00\x00\xc9\xc3"))
	f.Add([]byte("\x48\x83\xec\x68\xff\x25\x00\x00\x00\x00\x48\x83\xc4\x68\xc3\x66\x90"))
	f.Add([]byte("\x31\xed\x74\xfc\xeb\x02\xcc\xcc\x0f\x05\x8d\x24\x24\xc2\x08\x00"))
	f.Fuzz(func(t *testing.T, code []byte) {
		const start = 0x1008
		g := gap{start: start, code: code, at: make([]int32, len(code))}
		for i := range g.at {
			g.at[i] = notReached
		}
		n := &inference{gaps: []gap{g}, index: map[frameState]int32{}, fixed: map[uint64]bool{}}
		n.enter(start)
		n.followAll()
		for _, vaddr := range n.starts() {
			n.follow(vaddr, entryState, true)
		}
		n.followAll()
		end := uint64(start)
		for _, k := range n.rules() {
			if k.start < end || k.end <= k.start || k.end > start+uint64(len(code)) || k.rule.Flags != FlagInferred {
				t.Fatalf("%#x-%#x: %v", k.start, k.end, k.rule)
			}
			end = k.end
		}
	})
}

// TestInferEqualsCFI infers the frames of code that has CFI, and compares them with it. These files have no symbols,
// so that infer knows few functions. Its errors are in code that a compiler moved to after calls without return.
func TestInferEqualsCFI(t *testing.T) {
	for _, name := range []string{"bash", "libc.so.6", "libcrypto.so.3", "libstdc++.so.6"} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				path = "/usr/lib/x86_64-linux-gnu/" + name
			}
			im, err := dso.Open(path)
			if err != nil || im.Machine != elf.EM_X86_64 {
				t.Skipf("%s: %v", path, err)
			}
			defer im.Close()
			f, err := NewCFI(im)
			if err != nil {
				t.Skip(err)
			}
			table := f.Table()
			var same, sameCFA, wrong int
			for _, k := range infer(im, nil, maxInferred) {
				for at := k.start; at < k.end; at++ {
					want, got := table.Lookup(at), k.rule
					got.Flags = want.Flags
					switch {
					case want.CFA == CFANone || want.CFA == CFAPLT || want.CFA == CFAReg || want.Flags != 0:
					case want == got || want.RA == RAUndefined && got.RA == RAUndefined:
						same++
					case want.CFA == CFARBP && got.CFA == CFARSP: // both are right
					case want.CFA == got.CFA && want.CFAOff == got.CFAOff && want.RA == got.RA:
						sameCFA++
					default:
						if wrong++; at == k.start && wrong < 20 {
							t.Logf("%#x: %v, want %v", at, got, want)
						}
					}
				}
			}
			t.Logf("%d bytes with the same rule, %d with the same CFA, %d with another one", same, sameCFA, wrong)
			if wrong*50 > same+sameCFA+wrong {
				t.Errorf("%d wrong, %d right", wrong, same+sameCFA)
			}
		})
	}
}

// TestRubyFiber: stripped libraries of Ruby have no name of the function that begins fibers.
func TestRubyFiber(t *testing.T) {
	files, _ := filepath.Glob("/usr/lib/x86_64-linux-gnu/libruby-3.*.so.3.?")
	for _, file := range files {
		im, err := dso.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		f, err := NewCFI(im)
		if err != nil {
			t.Fatal(err)
		}
		if seg := (fiberFinder{f, im}).ruby(); seg.end <= seg.start || f.find(seg.start).start != seg.start {
			t.Errorf("%s: fiber_entry is at %#x-%#x", file, seg.start, seg.end)
		}
	}
	if len(files) == 0 {
		t.Skip("no libruby (Debian's ruby)")
	}
}
