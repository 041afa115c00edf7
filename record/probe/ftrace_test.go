package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gperf/record/tracefs"
)

// What ftrace can stop at is told by name, and from Linux 6.5 on by place, which
// tells functions of one name apart.
func TestTraceable(t *testing.T) {
	dir := t.TempDir()
	root := &tracefs.FS{Root: dir}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filterFunctions, "ip_rcv\nnf_hook [nf_conntrack]\n\n")
	kernel, module := entry{function{"ip_rcv", ""}, 0x1000}, entry{function{"nf_hook", "nf_conntrack"}, 0x9000}
	none, wrong := entry{function{"nf_hook", ""}, 0x2000}, entry{function{"ip_rcv", ""}, 0x3000}
	check := func(name string, where bool, want map[entry]bool) {
		t.Helper()
		can, err := readTraceable(root, where)
		if err != nil {
			t.Fatal(err)
		}
		for e, w := range want {
			if can.at(e) != w {
				t.Errorf("%s: %+v: %v", name, e, !w)
			}
		}
	}
	byName := map[entry]bool{kernel: true, module: true, none: false, wrong: true}
	check("names", false, byName)
	check("no places to be had", true, byName)
	write(filterAddrs, "0000000000001004 ip_rcv\n0000000000009000 nf_hook [nf_conntrack]\n")
	check("places", true, map[entry]bool{kernel: true, module: true, none: false, wrong: false})
}

// Raw tracepoints of the running kernel are described with its names.
func TestFindRaw(t *testing.T) {
	all, err := RawTracepoints()
	if err != nil {
		t.Skipf("the kernel's BTF is missing: %v", err)
	}
	if len(all) < 100 {
		t.Errorf("only %d raw tracepoints: %v", len(all), all)
	}
	raw, err := FindRaw("sched_process_fork")
	if err != nil {
		t.Fatal(err)
	}
	if len(raw.Args) != 2 || raw.Args[0].Type != "struct task_struct *" || !raw.Args[0].Pointer || raw.Args[0].Name == raw.Args[1].Name {
		t.Errorf("%+v", raw)
	}
	if _, err := FindRaw("no_such_tracepoint"); !errors.Is(err, ErrNoRaw) {
		t.Errorf("a name that there is none of: %v", err)
	}
}
