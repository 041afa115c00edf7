package stacks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/unwind"
)

// identifiable is a recorder's data about this process, which maps two files with one build ID.
type identifiable struct {
	*tracker
	t       *testing.T
	tables  *tables
	records []*format.Mmap
}

func newIdentifiable(t *testing.T) *identifiable {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: /proc/PID/map_files cannot be read")
	}
	p := newTracker(func(*process) {})
	p.replace(int32(os.Getpid()), &addrSpace{})
	n := &identifiable{tracker: p, t: t, tables: &tables{procs: &registry{tracker: p}, builder: &builder{}}}
	for _, name := range []string{"first", "second"} {
		n.mmap(name)
	}
	return n
}

// mmap maps a new file, and records that.
func (n *identifiable) mmap(name string) {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), name)
	if err := os.WriteFile(path, make([]byte, 4096), 0o700); err != nil {
		n.t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { unix.Munmap(b) })
	at := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	m := mmapRecord(int32(os.Getpid()), at, at+4096, 0, path)
	m.BuildID = []byte("the same for all")
	n.records = append(n.records, m)
	n.record(m)
}

// file returns the file of a mapping.
func (n *identifiable) file(i int) *mappedFile {
	return n.byPID[int32(os.Getpid())].space.find(n.records[i].Start).file
}

// ready makes a file's table one with a rule.
func (n *identifiable) ready(f *mappedFile, r unwind.Rule) {
	f.use(&unwind.Table{Rules: []unwind.Rule{{}, r}}, true)
	f.state, f.loaded, f.inBPF = fileReady, true, &sharedTable{Table: bpf.Table{}, users: 1}
}

func TestIdentify(t *testing.T) {
	n := newIdentifiable(t)
	if n.file(0) != n.file(1) {
		t.Fatal("records with one build ID have two files")
	}
	proc := n.byPID[int32(os.Getpid())]
	n.identify(proc)
	first, second := n.file(0), n.file(1)
	if first == second || first.inode == second.inode || first.name == second.name {
		t.Fatalf("two files with one build ID are one: %q, %v; %q, %v", first.name, first.inode,
			second.name, second.inode)
	}
	n.record(n.records[1]) // again, by another process or this one
	n.identify(proc)
	if n.file(1) != second {
		t.Error("a known file is another one, mapped again")
	}
	for i, f := range []*mappedFile{first, second} {
		im := &mappedFile{name: f.name, pid: f.pid, at: f.at}
		if got, err := mappedInode(im.pid, &im.at); err != nil || got != f.inode {
			t.Errorf("file %d is to be opened where the file %v is: %v", i, got, err)
		}
	}
}

// oneObject is an address space with one object.
type oneObject struct{ *unwind.Object }

func (o oneObject) Mapping(uint64) *unwind.Mapping {
	return &unwind.Mapping{End: 1 << 40, Object: o.Object}
}
func (oneObject) Code(uint64, []byte) bool { return false }

// The complete CFI of a file is freed, and read again for the next walk, if the file is at a path of this process.
func TestReleaseCFI(t *testing.T) {
	n := newIdentifiable(t)
	n.identify(n.byPID[int32(os.Getpid())])
	stays, goes := n.file(0), n.file(1)
	opened := map[*mappedFile]int{}
	for _, f := range []*mappedFile{stays, goes} {
		f.object = unwind.NewObject(nil, func() (*unwind.CFI, error) {
			opened[f]++
			f.here = f == goes
			return new(unwind.CFI), nil
		})
	}
	walk := func() {
		for _, f := range []*mappedFile{stays, goes} {
			var w unwind.Unwinder
			regs := unwind.AllRegs(machine, make([]uint64, bpf.NumRegs))
			w.Walk(nil, &regs, &unwind.Stack{}, oneObject{f.object})
		}
	}
	walk()
	walk()
	n.tables.prune(time.Now().Add(time.Hour), nil)
	walk()
	if opened[stays] != 1 || opened[goes] != 2 {
		t.Errorf("read %d times, and %d times at a path of this process; want 1 and 2", opened[stays], opened[goes])
	}
}

// A name leads to a file here if its device and inode are the file's.
func TestIsHere(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(exe)
	if err != nil {
		t.Fatal(err)
	}
	f := &mappedFile{name: exe, file: inodeOf(st)}
	if !f.isHere() {
		t.Errorf("%s is not here", exe)
	}
	f.file.ino++
	if f.isHere() {
		t.Error("another file of the name is here")
	}
	f.name = exe + "-gone"
	if f.isHere() {
		t.Error("no file of the name is here")
	}
}

// Files with equal tables share one; a different table makes the build ID contested.
func TestTwin(t *testing.T) {
	n := newIdentifiable(t)
	n.mmap("third")
	n.identify(n.byPID[int32(os.Getpid())])
	first, second, third := n.file(0), n.file(1), n.file(2)
	honest, other := unwind.Rule{CFA: 1}, unwind.Rule{CFA: 2}
	n.ready(first, honest)
	second.use(&unwind.Table{Rules: []unwind.Rule{{}, honest}}, true)
	if n.tables.twin(second) != first {
		t.Error("an equal table is not shared")
	}
	if first.contested {
		t.Error("equal tables are contested")
	}
	n.ready(second, honest)
	third.use(&unwind.Table{Rules: []unwind.Rule{{}, other}}, true)
	if n.tables.twin(third) != nil {
		t.Error("a different table is shared")
	}
	if !first.contested || !second.contested || !third.contested {
		t.Error("different tables are not contested")
	}
	names := []string{first.name, second.name, third.name}
	if slices.Sort(n.tables.contested); !slices.Equal(n.tables.contested, names) {
		t.Errorf("contested: %q", n.tables.contested)
	}

	// A process that cannot be asked gets the file at the path of the mapping, or none.
	const gone = 1 << 30
	for i, want := range []*mappedFile{first, second, third} {
		m := *n.records[i]
		m.PID = gone
		if got := n.tracker.file(&m); got != want {
			t.Errorf("the path of file %d leads to %q", i, got.name)
		}
	}
	m := *n.records[0]
	m.PID, m.Filename = gone, "/in/a/container"
	if got := n.tracker.file(&m); got.state != fileFP {
		t.Errorf("a file at an unknown path is %q", got.name)
	}
}
