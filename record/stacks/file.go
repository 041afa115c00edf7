package stacks

import (
	"errors"
	"fmt"
	"io/fs"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/runtimes"
	"gperf/internal/untrusted"
	"gperf/unwind"
)

// sharedTable is an unwind table in BPF.
type sharedTable struct {
	bpf.Table
	users int // files that use the table
}

// fileState is how stacks are walked through a file's code.
type fileState uint8

const (
	fileUnknown fileState = iota // not sampled yet
	filePending                  // the table is being made
	fileReady                    // by the unwind table
	fileFP                       // by frame pointers: there is no CFI
	fileGone                     // by frame pointers: the file could not be opened, but may be through another process
	fileMade                     // code made at run time, in memory without a file
	fileUprobes                  // the kernel's return trampoline of uretprobes
)

// mappedFile is a file with code that some process maps, or mapped code without a file.
type mappedFile struct {
	name  string
	id    dso.BuildID
	file  fileID // zero if records contain the build ID
	inode fileID // of a file with a build ID; zero until a process is seen that maps it
	// written is when a file without a build ID was changed, zero until its table is requested: another time means
	// other contents.
	written ctime
	// contested means that several files with different unwind tables use the same build ID.
	contested bool
	state     fileState
	pid       int32 // a process that maps the file
	at        mapping
	// postponed means that there was no CPU time to make the table: the state is fileFP until there is.
	postponed bool
	// refused is why there is no table; nil in other states than fileFP and fileGone.
	refused error
	// opened is the number of processes through which the file could not be opened.
	opened int
	// mapped is the last sweep in which a process mapped the file.
	mapped int
	// changed is set while the processes that map the file are looked for.
	changed bool

	// jit, if set, is the jitdump of the generated code that the file represents.
	jit *jitDump

	// Set when ready.
	im        *dso.Image // closed: only the headers
	table     *unwind.Table
	object    *unwind.Object
	here      bool   // isHere, when the object last read the CFI
	entry     uint64 // vaddr
	inBPF     *sharedTable
	shared    []bpf.FileMapping // mappings of the file that BPF knows in all processes
	loaded    bool              // the table is in BPF, as inBPF
	cached    bool              // the table is in the cache for the next recording, or will be
	runtime   runtimes.Runtime  // the interpreter in the file; nil if there is none
	noRuntime error             // why there is no runtime, although the file contains one
	vm        *vm               // the virtual machine whose generated code this is; nil for other code
}

func newMappedFile(m *format.Mmap) *mappedFile {
	f := &mappedFile{name: m.Filename, id: dso.NewBuildID(m.BuildID)}
	if f.id.IsZero() {
		f.file = fileID{m.Maj, m.Min, m.Ino, m.InoGen}
	}
	switch kind := dso.KindOf(m.Filename); {
	case kind == dso.KindUprobes:
		f.state = fileUprobes
	case !kind.HasPath() && m.Filename != dso.VDSO:
		f.state = fileMade
	}
	return f
}

// locate stores where the file can be opened, unless it was opened already: the latest process is the likeliest to
// live.
func (f *mappedFile) locate(pid int32, at mapping) {
	switch f.state {
	case fileGone:
		f.state = fileUnknown
	case fileUnknown:
	default:
		return
	}
	f.pid, f.at = pid, at
}

// reset drops the table, until another sample needs it.
func (f *mappedFile) reset() {
	f.state, f.im, f.table, f.object, f.written = fileUnknown, nil, nil, nil, ctime{}
}

// bias returns ip - vaddr of a file that is ready.
func (m *mapping) bias() (bias uint64, ok bool) {
	if m.file.jit != nil {
		return 0, true
	}
	return m.file.im.Bias(m.start, m.end, m.pgoff)
}

// forBPF returns the mapping for the BPF programs.
func (m *mapping) forBPF() bpf.Mapping {
	k := bpf.Mapping{Start: m.start, End: m.end, Table: bpf.TablePending}
	switch m.file.state {
	case fileReady:
		if !m.file.loaded {
			break
		}
		if m.file.vm != nil {
			if heap, ok := m.file.vm.heapFor(m); ok {
				return heap
			}
			k.Table = bpf.TableFP
			break
		}
		bias, ok := m.bias()
		if k.Bias, k.Table = bias, m.file.inBPF.Index(); !ok {
			k.Table = bpf.TableFP
		}
	case fileFP, fileGone:
		k.Table = bpf.TableFP
	case fileMade:
		k.Table = bpf.TableMade
	case fileUprobes:
		k.Table = bpf.TableUprobes
		k.Start-- // functions return to the first byte of it, and return addresses are looked up minus 1
	}
	return k
}

// paths returns the names under which the file may be opened: in the process's root, through the process's
// mapping, in this process's root.
func (f *mappedFile) paths() []string {
	return []string{
		fmt.Sprintf("/proc/%d/root%s", f.pid, f.name),
		f.at.path(f.pid),
		f.name,
	}
}

// open opens the mapped file; it rejects another file of the same name. If the file cannot be opened, such as a
// deleted one, the image is read from the process's memory.
func (f *mappedFile) open() (*dso.Image, error) {
	if f.name == dso.VDSO {
		return new(dso.Locator).Find(dso.VDSO, f.id)
	}
	err := fmt.Errorf("open %s: %w", f.name, dso.ErrNoFile)
	for _, path := range f.paths() {
		im, e := dso.Open(path)
		switch {
		case e == nil && f.matches(im):
			return im, nil
		case e == nil:
			im.Close()
		case errors.Is(e, untrusted.ErrBlocked): // the kernel reads missing pages of the process's memory there, too
			return nil, e
		case !errors.Is(e, dso.ErrNoFile):
			err = e
		}
	}
	if im, e := dso.OpenMemory(f.pid, f.at.start, f.file.ino); e == nil {
		if f.id.IsZero() || im.BuildID().Matches(f.id) {
			return im, nil
		}
		im.Close()
	}
	return nil, err
}

// matches reports whether an image belongs to the file.
func (f *mappedFile) matches(im *dso.Image) bool {
	inode := inodeOf(im.Info)
	if f.id.IsZero() {
		return inode.ino == f.file.ino && (f.written == ctime{} || ctimeOf(im.Info) == f.written)
	}
	return im.BuildID().Matches(f.id) && (f.inode == (fileID{}) || f.inode == inode)
}

// unavailable reports whether an error of open means that the file can perhaps be opened through
// another process.
func unavailable(err error) bool {
	return errors.Is(err, dso.ErrNoFile) || errors.Is(err, fs.ErrPermission)
}

// build makes the file's table. It runs in the background, in state filePending, and sets only fields that are not
// read in this state. save, unless it is nil, stores the table in the cache. lean makes walks end where the table
// contains no usable row: the complete CFI of a large file takes much memory.
func (f *mappedFile) build(cache *unwind.Cache, lean bool) (save func(), err error) {
	switch {
	case f.vm != nil:
		return nil, f.readHeaps()
	case f.jit != nil:
		return nil, f.jit.build(f)
	}
	im, err := f.open()
	if err != nil {
		return nil, err
	}
	defer im.Close()
	f.identify(im)
	table, save, err := cache.Get(im)
	if err != nil {
		return nil, err
	}
	f.im, f.cached = im, unwind.Cacheable(table)
	f.runtime, f.noRuntime = runtimes.Find(im, f.name)
	f.entry = im.Entry()
	f.use(table, lean)
	return save, nil
}

// use makes walks in Go use a table, and the file's complete CFI unless lean is true.
func (f *mappedFile) use(table *unwind.Table, lean bool) {
	f.table = table
	if lean {
		f.object = unwind.NewObject(table, nil)
		return
	}
	f.object = unwind.NewObject(table, func() (*unwind.CFI, error) {
		im, err := f.open()
		if err != nil {
			return nil, err
		}
		defer im.Close()
		f.here = f.isHere()
		return unwind.NewCFI(im)
	})
}

// releaseCFI frees the file's complete CFI if it can be read again for sure: at a path of this process, not through one
// that may have exited by then. Few walks need it, and the walker keeps their rows.
func (f *mappedFile) releaseCFI() {
	if f.here {
		f.object.Release()
	}
}

// isHere reports whether the file's name leads to it in the root directory of this process.
func (f *mappedFile) isHere() bool {
	im, err := dso.Open(f.name)
	if err != nil {
		return false
	}
	defer im.Close()
	return f.matches(im)
}

// code reads the file's code at an offset.
func (f *mappedFile) code(off uint64, b []byte) bool {
	im, err := f.open()
	if err != nil {
		return false
	}
	defer im.Close()
	n, _ := im.ReadAt(b, int64(off))
	return n == len(b)
}
