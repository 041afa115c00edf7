package probe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gperf/record/probe/kernel"
	"gperf/record/tracefs"
)

// TestEntryAddrs checks that ftrace's list of functions is used by name, and from Linux 6.5 on
// by address, which distinguishes functions of the same name.
func TestEntryAddrs(t *testing.T) {
	dir := t.TempDir()
	root := &tracefs.FS{Root: dir}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("available_filter_functions", "ip_rcv\nnf_hook [nf_conntrack]\n\n")
	probe := func(symbol, module string, at uint64) *Probe {
		return &Probe{site: kernel.Site{Function: kernel.Function{Addr: at, Name: symbol, Module: module}}}
	}
	ip, module := probe("ip_rcv", "", 0x1000), probe("nf_hook", "nf_conntrack", 0x9000)
	none, other := probe("nf_hook", "", 0x2000), probe("ip_rcv", "", 0x3000)
	check := func(name string, want ...*Probe) {
		t.Helper()
		all := []*Probe{ip, module, none, other}
		got, err := EntryAddrs(root, all)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if (got[p] == p.site.Addr) != slices.Contains(want, p) {
				t.Errorf("%s: %+v is at %#x", name, p, got[p])
			}
		}
	}
	check("names", ip, module, other)
	ip.site.Ambiguous, other.site.Ambiguous = true, true
	check("ambiguous names", module)
	write("available_filter_functions_addrs", "0000000000001004 ip_rcv\n0000000000009000 nf_hook [nf_conntrack]\n")
	check("places", ip, module)
	ip.site.Addr = 0
	if _, err := EntryAddrs(root, []*Probe{ip}); !errors.Is(err, ErrHidden) {
		t.Errorf("a function that is nowhere: %v", err)
	}
}
