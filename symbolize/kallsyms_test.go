package symbolize

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

const kallsymsText = `ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 t startup
ffffffff81000100 W alias_of_do_work
ffffffff81000100 T do_work
ffffffff810001f0 T __pfx_next_one
ffffffff81000200 t next_one
ffffffff81000280 T $x
ffffffff81000290 t .Lloop
ffffffff810002a0 T .klp.sym.vmlinux.do_work,0
ffffffff81000300 A absolute
ffffffff81000310 r rodata
ffffffff81000340 t next_one.cold
ffffffff82000000 D some_data
ffffffff82001010 b last_bss
ffffffffc0100000 t mod_init	[alpha]
ffffffffc0100040 T mod_work	[alpha]
ffffffffc0200000 t mod_work	[beta]
ffffffffc0300000 t bpf_prog_6deef7357e7b4530	[bpf]
no such line
`

func TestKallsyms(t *testing.T) {
	k, err := parseKallsyms(strings.NewReader(kallsymsText))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ip           uint64
		name, module string
		offset       uint64
	}{
		{0xffffffff80ffffff, "", "", 0},
		{0xffffffff81000000, "startup", "", 0}, // the last alias: only this one gets a size
		{0xffffffff81000150, "do_work", "", 0x50},
		{0xffffffff810001f8, "__pfx_next_one", "", 8},
		{0xffffffff810002ff, "next_one", "", 0xff}, // mapping symbols and labels do not cut it
		{0xffffffff81000342, "next_one.cold", "", 2},
		{0xffffffff82000800, "some_data", "", 0x800},
		{0xffffffff82001fff, "last_bss", "", 0xfef},
		{0xffffffff82002fff, "last_bss", "", 0x1fef},
		{0xffffffff82003000, "", "", 0}, // not up to the modules
		{0xffffffffc0100044, "mod_work", "[alpha]", 4},
		{0xffffffffc0102000, "", "", 0}, // nor from one module to the next
		{0xffffffffc0200010, "mod_work", "[beta]", 0x10},
		{0xffffffffc0300001, "bpf_prog_6deef7357e7b4530", "[bpf]", 1},
		{^uint64(0), "", "", 0},
	} {
		t.Run(fmt.Sprintf("%#x", c.ip), func(t *testing.T) {
			sym, module, ok := k.Lookup(c.ip)
			if ok != (c.name != "") {
				t.Errorf("at %#x: %+v, want %q", c.ip, sym, c.name)
				return
			}
			if ok && (sym.Name != c.name || module != c.module || c.ip-sym.Start != c.offset) {
				t.Errorf("at %#x: %s+%#x %s, want %s+%#x %s", c.ip, sym.Name, c.ip-sym.Start, module, c.name,
					c.offset, c.module)
			}
		})
	}
	if addr, ok := k.Addr("_text"); !ok || addr != 0xffffffff81000000 {
		t.Errorf("_text is at %#x, %t", addr, ok)
	}
	if start, end := k.Range(); start != 0xffffffff81000000 || end != 0xffffffff82003000 {
		t.Errorf("the kernel spans %#x-%#x, want 0xffffffff81000000-0xffffffff82003000", start, end)
	}
}

func TestKallsymsRefused(t *testing.T) {
	hidden := "0000000000000000 T _stext\n0000000000000000 T do_work\n0000000000000000 t mod\t[m]\n"
	if _, err := parseKallsyms(strings.NewReader(hidden)); !errors.Is(err, errRestricted) {
		t.Errorf("all addresses 0: error %v, want ErrRestricted", err)
	}
	for _, text := range []string{"", "\n\n", "garbage\n", "xyz T name\n", "ffffffff81000000 T \n"} {
		t.Run(text, func(t *testing.T) {
			if k, err := parseKallsyms(strings.NewReader(text)); err == nil {
				t.Errorf("%q gives %d symbols, want an error", text, k.table.Len())
			}
		})
	}
}

func writeKallsyms(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(kallsymsText), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKernelMoved looks up symbols of a kernel that ran at other addresses (KASLR).
func TestKernelMoved(t *testing.T) {
	path := writeKallsyms(t, t.TempDir()+"/kallsyms")
	s := New(Options{Kallsyms: path, KernelRef: "_text", KernelRefAddr: 0xffffffff9a000000})
	sym, offset, module, why := s.Kernel(0xffffffff9a000150)
	if why != Found || sym.Name != "do_work" || offset != 0x50 || module != "" {
		t.Errorf("got %+v+%#x %q, %v, want do_work+0x50", sym, offset, module, why)
	}
	if start, _ := s.KernelRange(); start != 0xffffffff9a000000 {
		t.Errorf("the kernel starts at %#x, want the recorded address", start)
	}
	s = New(Options{Kallsyms: path, KernelRef: "_stext_of_another", KernelRefAddr: 1})
	if _, _, _, why := s.Kernel(0xffffffff81000100); why != OtherKernel {
		t.Errorf("symbols without the reference: %v, want %v", why, OtherKernel)
	}
}

// TestKernelOther checks that symbols of the running kernel are not used for another
// one, and that symbols in perf's cache are.
func TestKernelOther(t *testing.T) {
	dir := t.TempDir()
	id := dso.NewBuildID([]byte("some other kernel..."))
	opts := Options{KernelBuildID: id, Locator: &dso.Locator{Tree: dso.Tree{BuildIDDir: dir}}}
	if _, _, _, why := New(opts).Kernel(0xffffffff81000100); why != OtherKernel {
		t.Errorf("not in the cache: %v, want %v", why, OtherKernel)
	}
	if err := New(opts).KernelProblem(); err == nil || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("problem %v does not name the build ID", err)
	}
	writeKallsyms(t, opts.Locator.Cache().Kallsyms(id))
	if sym, _, _, why := New(opts).Kernel(0xffffffff81000100); why != Found || sym.Name != "do_work" {
		t.Errorf("in the cache: %+v, %v, want do_work", sym, why)
	}
}

func TestKernelRestricted(t *testing.T) {
	path := t.TempDir() + "/kallsyms"
	if err := os.WriteFile(path, []byte("0000000000000000 T _stext\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, _, why := New(Options{Kallsyms: path}).Kernel(0xffffffff81000100); why != Restricted {
		t.Errorf("%v, want %v", why, Restricted)
	}
}
