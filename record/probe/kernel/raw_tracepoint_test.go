package kernel

import (
	"reflect"
	"strings"
	"testing"
)

// TestFindRaw describes raw tracepoints of the running kernel with the kernel's names.
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
	if len(raw.Args) != 2 || raw.Args[0].Type != "struct task_struct *" || raw.Args[0].Shown != AsAddress ||
		raw.Args[0].Name == raw.Args[1].Name {
		t.Errorf("%+v", raw)
	}
}

func TestRunners(t *testing.T) {
	const text = "ffffffff81000000 T _text\nffffffff81000100 T __traceiter_a\nffffffff81000180 T " +
		"__traceiter_b\nffffffff81000200 T c\nffffffff81000300 T bpf_trace_run1\nffffffff81000340 T " +
		"__bpf_trace_a\nffffffff81000380 T d\n" +
		"ffffffffc0000100 T __traceiter_m\t[m]\nffffffffc0000000 t f\t[m]\nffffffffc0000140 t g\t[m]\n"
	got := Runners(strings.NewReader(text))
	want := Codes{
		{0xffffffff81000100, 0xffffffff81000180}, {0xffffffff81000180, 0xffffffff81000200},
		{0xffffffff81000300, 0xffffffff81000340}, {0xffffffff81000340, 0xffffffff81000380},
		{0xffffffffc0000100, 0xffffffffc0000140},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for addr, in := range map[uint64]bool{0xffffffff810000ff: false, 0xffffffff81000100: true,
		0xffffffff8100037f: true, 0xffffffff81000380: false, 0xffffffffc0000120: true, 0xffffffffc0000140: false} {
		if got.Has(addr) != in {
			t.Errorf("%x: %v", addr, !in)
		}
	}
	if got := Runners(strings.NewReader("0000000000000000 T __traceiter_a\n")); len(got) != 0 {
		t.Errorf("of hidden addresses: %x", got)
	}
}
