package symbolize

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

func TestUserCode(t *testing.T) {
	path := compile(t, cProgram, "-O1")
	s := New(Options{})
	vaddr := vaddrOf(t, path, "main")
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	start, ok := im.OffOfVaddr(vaddr)
	if !ok {
		t.Fatalf("%#x is nowhere in the file", vaddr)
	}
	want, err := im.Bytes(start, 32)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.UserCode(path, dso.BuildID{}, start, start+32)
	if err != nil || c.Addr != vaddr || c.File != path || c.Machine != im.Machine || !bytes.Equal(c.Bytes, want) {
		t.Fatalf("%+v, %v; want %x at %#x", c, err, want, vaddr)
	}
	if got := c.Name(vaddr) + " " + c.Name(vaddr+5) + " " + c.Name(1<<40); got != "main main+0x5 " {
		t.Errorf("names are %q", got)
	}
	id := dso.NewBuildID([]byte("another program's id"))
	for _, c := range []struct {
		name, path string
		id         dso.BuildID
		start, end uint64
		want       string
	}{
		{"in no segment", path, dso.BuildID{}, 1 << 40, 1<<40 + 1, "no segment contains offset 0x10000000000"},
		{"too long", path, dso.BuildID{}, start, start + 1<<30, "longer than 1 MiB"},
		{"other build ID", path, id, start, start + 1,
			"(build id " + id.String() + "): find " + path + ": " + path + ": build id mismatch"},
		{"no file", path + ".gone", dso.BuildID{}, start, start + 1, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.UserCode(c.path, c.id, c.start, c.end)
			var no *NoCodeError
			if !errors.As(err, &no) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}

// TestSlotNames checks the names of functions that code calls through the global offset
// table, as Rust's does.
func TestSlotNames(t *testing.T) {
	path := compile(t, cProgram, "-O1", "-fno-plt")
	s := New(Options{})
	start := vaddrOf(t, path, "main")
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	off, _ := im.OffOfVaddr(start)
	c, err := s.UserCode(path, dso.BuildID{}, off, off+1)
	if err != nil {
		t.Fatal(err)
	}
	got := im.Section(".got")
	if got == nil {
		t.Skip("gcc made no .got")
	}
	names := map[string]bool{}
	for at := got.Addr; at < got.Addr+got.Size; at += 8 {
		names[c.Name(at)] = true
	}
	if !names["puts"] || !names["__libc_start_main"] {
		t.Errorf("the slots are those of %v", names)
	}
}

// memory writes the files of a running kernel's /proc that this package reads: kallsyms,
// and kcore with four pages whose bytes derive from their addresses.
func memory(t *testing.T, text, page uint64) (proc string) {
	t.Helper()
	proc = t.TempDir()
	kallsyms := fmt.Sprintf("%016x T _text\n%016x T f\n%016x T g\n%016x t m\t[module]\n", text, page+0x100,
		page+0x180, page+0x3000)
	h := elf.Header64{Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64,
		Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{h, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 7, Off: 0x1000, Vaddr: page,
		Filesz: 0x4000, Memsz: 0x4000}} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	b.Write(make([]byte, 0x1000-b.Len()))
	for i := range 0x4000 / 2 {
		b.Write([]byte{byte(2 * i >> 8), byte(2 * i)})
	}
	for name, text := range map[string][]byte{"kallsyms": []byte(kallsyms), "kcore": b.Bytes()} {
		if err := os.WriteFile(filepath.Join(proc, name), text, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// TestKernelCode reads code of a running kernel at other addresses than when it was
// recorded.
func TestKernelCode(t *testing.T) {
	const text, page, moved = 0xffffffff81000000, 0xffffffff81001000, 0x200000
	for _, recorded := range []uint64{text, text - moved} {
		proc := memory(t, text, page)
		s := New(Options{Locator: &dso.Locator{Tree: dso.Tree{BuildIDDir: t.TempDir()}},
			Kallsyms: filepath.Join(proc, "kallsyms"), KernelRef: "_text", KernelRefAddr: recorded})
		s.proc = proc
		ip := page + 0x100 - text + recorded
		c, err := s.KernelCode(ip, ip+4)
		if err != nil || c.Addr != ip || !bytes.Equal(c.Bytes, []byte{1, 0, 1, 2}) || c.Machine != elf.EM_X86_64 {
			t.Fatalf("%+v, %v", c, err)
		}
		if got := c.Name(ip+0x10) + " " + c.Name(ip+0x80); got != "f+0x10 g" {
			t.Errorf("names are %q", got)
		}
		module := page + 0x3000 - text + recorded
		if _, err = s.KernelCode(module, module+1); (err == nil) != (recorded == text) ||
			err != nil && !strings.Contains(err.Error(), "modules were at other addresses") {
			t.Errorf("a module's code, the kernel being %#x further: %v", text-recorded, err)
		}
	}
}

func TestKernelCodeMissing(t *testing.T) {
	const text, page = 0xffffffff81000000, 0xffffffff81001000
	proc := memory(t, text, page)
	other := dso.NewBuildID([]byte("of another kernel  !"))
	for _, c := range []struct {
		name string
		opts Options
		proc string
		want string
	}{
		{"other kernel", Options{KernelBuildID: other}, proc,
			proc + "/kcore: the running kernel is not the one recorded"},
		{"other build ID", Options{KernelBuildID: other}, proc, "(build id " + other.String() + "): "},
		{"no file", Options{}, t.TempDir(), "no such file"},
		{"other machine", Options{Locator: &dso.Locator{Tree: dso.Tree{Root: t.TempDir()}}}, proc,
			"the files are of another machine"},
		{"no build ID", Options{Locator: &dso.Locator{VmlinuxPath: filepath.Join(proc, "kcore")}, KernelBuildID: other},
			proc, "kcore: no build id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.KernelRef, c.opts.KernelRefAddr = "_text", text
			s := New(c.opts)
			s.proc = c.proc
			_, err := s.KernelCode(page+0x100, page+0x110)
			var no *NoCodeError
			if !errors.As(err, &no) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		})
	}
}
