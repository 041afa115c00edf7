package probe

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/record/tracefs"
)

// TestTraceable checks that ftrace's list of functions is used by name, and from Linux 6.5 on
// by address, which distinguishes functions of the same name.
func TestTraceable(t *testing.T) {
	dir := t.TempDir()
	root := &tracefs.FS{Root: dir}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filterFunctions, "ip_rcv\nnf_hook [nf_conntrack]\n\n")
	probe := func(symbol, module string, at uint64) *Probe {
		return &Probe{Symbol: symbol, Module: module, entry: at}
	}
	kernel, module := probe("ip_rcv", "", 0x1000), probe("nf_hook", "nf_conntrack", 0x9000)
	none, other := probe("nf_hook", "", 0x2000), probe("ip_rcv", "", 0x3000)
	check := func(name string, want ...*Probe) {
		t.Helper()
		all := []*Probe{kernel, module, none, other}
		got, err := Entries(root, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if (got[p] == p.entry) != slices.Contains(want, p) {
				t.Errorf("%s: %+v is at %#x", name, p, got[p])
			}
		}
	}
	check("names", kernel, module, other)
	kernel.ambiguous, other.ambiguous = true, true
	check("names that stand for several", module)
	write(filterAddrs, "0000000000001004 ip_rcv\n0000000000009000 nf_hook [nf_conntrack]\n")
	check("places", kernel, module)
	kernel.entry = 0
	if _, err := Entries(root, []*Probe{kernel}); !errors.Is(err, ErrHidden) {
		t.Errorf("a function that is nowhere: %v", err)
	}
}

// TestFindRaw describes raw tracepoints of the running kernel with its names.
func TestFindRaw(t *testing.T) {
	all, err := RawTracepoints(BTFDir)
	if err != nil {
		t.Skipf("the kernel's BTF is missing: %v", err)
	}
	if len(all) < 100 {
		t.Errorf("only %d raw tracepoints: %v", len(all), all)
	}
	found, err := FindRaw("no_such_tracepoint", "sched_process_fork")
	if err != nil || len(found) != 1 {
		t.Fatalf("%d described, %v; one of the names is that of none", len(found), err)
	}
	raw := found[0]
	if len(raw.Args) != 2 || raw.Args[0].Type != "struct task_struct *" || raw.Args[0].Shown != AsAddress || raw.Args[0].Name == raw.Args[1].Name {
		t.Errorf("%+v", raw)
	}
}

func TestIterators(t *testing.T) {
	const text = "ffffffff81000000 T _text\nffffffff81000100 T __traceiter_a\nffffffff81000180 T __traceiter_b\nffffffff81000200 T c\n" +
		"ffffffffc0000100 T __traceiter_m\t[m]\nffffffffc0000000 t f\t[m]\nffffffffc0000140 t g\t[m]\n"
	got := Iterators(strings.NewReader(text), map[string]bool{"a": true, "m": true, "x": true})
	want := map[string]Code{"a": {0xffffffff81000100, 0xffffffff81000180}, "m": {0xffffffffc0000100, 0xffffffffc0000140}}
	if !maps.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := Iterators(strings.NewReader("0000000000000000 T __traceiter_a\n"), map[string]bool{"a": true}); len(got) != 0 {
		t.Errorf("of hidden addresses: %x", got)
	}
}
