package synth

import (
	"debug/elf"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procfs"
)

// fakeCopy is memory of this process between the addresses at which its program would be if it were also mapped there.
type fakeCopy struct {
	ip     uint64
	memory []byte // at ip
	code   []byte // of the program, that belongs at ip
	off    uint64 // of the code in the program
}

const fakeSize = 8 * pageSize

// mapCopy maps the first page of this process's program, and memory where its code would be.
func mapCopy(t *testing.T) fakeCopy {
	t.Helper()
	im, err := dso.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	first := im.Loads[0]
	i := slices.IndexFunc(im.Loads, func(l elf.ProgHeader) bool { return l.Flags&elf.PF_X != 0 })
	text := im.Loads[i]
	at := pageEnd(text.Vaddr+pageSize) - pageStart(first.Vaddr)
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(at+fakeSize), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.MunmapPtr(base, uintptr(at+fakeSize)) })
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = unix.MmapPtr(int(f.Fd()), 0, base, pageSize, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		t.Fatal(err)
	}
	p := unsafe.Add(base, at)
	if _, err := unix.MmapPtr(-1, 0, p, fakeSize, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED); err != nil {
		t.Skipf("no memory for code: %v", err)
	}
	off := at + pageStart(first.Vaddr) - text.Vaddr + text.Off
	code, err := im.Bytes(off, fakeSize)
	if err != nil {
		t.Fatal(err)
	}
	return fakeCopy{uint64(uintptr(p)), unsafe.Slice((*byte)(p), fakeSize), code, off}
}

// copiesAt returns the copies at an ip of this process.
func copiesAt(t *testing.T, ip uint64) (l []format.Mmap) {
	t.Helper()
	maps, err := procfs.Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range AppendCopies(nil, os.Getpid(), slices.Collect(maps), false) {
		if ip >= m.Start && ip < m.Start+m.Len {
			l = append(l, m)
		}
	}
	return l
}

// TestCopies checks that memory between the mappings of a file is code of the file only if it has its bytes.
func TestCopies(t *testing.T) {
	c := mapCopy(t)
	if l := copiesAt(t, c.ip); len(l) > 0 {
		t.Errorf("memory without code is a copy: %+v", l)
	}
	copy(c.memory, c.code)
	c.memory[pageSize+1]++ // a patch
	l := copiesAt(t, c.ip)
	exe, _ := os.Readlink("/proc/self/exe")
	if len(l) != 1 || l[0].Start != c.ip || l[0].Len != fakeSize || l[0].Pgoff != c.off || l[0].Filename != exe ||
		!HasFile(&l[0]) || !l[0].Executable() {
		t.Errorf("copies: %+v, want %s at %#x from offset %#x", l, exe, c.ip, c.off)
	}
	for i := range c.memory {
		c.memory[i] ^= 1
	}
	if l := copiesAt(t, c.ip); len(l) > 0 {
		t.Errorf("other code is a copy: %+v", l)
	}
}

// TestCopiesFollowed checks that a copy is found once, when its code is there, and again if the memory is mapped again.
func TestCopiesFollowed(t *testing.T) {
	fake := mapCopy(t)
	mapped := format.Mmap{V2: true, Misc: format.MiscUser, PID: int32(os.Getpid()), Start: fake.ip, Len: fakeSize,
		Prot: format.ProtExec, Filename: "//anon", ID: format.RecordID{Time: 100}}
	var c Copies
	find := func(after, want uint64) {
		t.Helper()
		l := c.Find(after)
		switch {
		case want == 0 && len(l) > 0:
			t.Errorf("found %+v, want none", l)
		case want != 0 && (len(l) != 1 || l[0].Start != fake.ip || l[0].ID.Time != want):
			t.Errorf("found %+v, want one at time %d", l, want)
		}
	}
	library := mapped
	library.Filename = "/lib/libc.so.6"
	c.Mapped(&library)
	if len(c.copying) > 0 {
		t.Error("the mapping of a library may be a copy")
	}
	c.Mapped(&mapped)
	find(50, 0)
	copy(fake.memory, fake.code)
	find(200, 200)
	find(300, 0)
	mapped.ID.Time = 400
	c.Mapped(&mapped)
	find(300, 401)
}
