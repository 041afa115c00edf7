package record

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
	"gperf/unwind"
)

// fileState is how stacks are walked through a file's code.
type fileState uint8

const (
	fileUnknown fileState = iota // not sampled yet
	filePending                  // the table is being made
	fileReady                    // by the unwind table
	fileFP                       // by frame pointers: there is no CFI
	fileUprobes                  // the kernel's return trampoline of uretprobes
)

// mappedFile is a file with code that some process has mapped, or mapped code without a file.
type mappedFile struct {
	name  string
	id    dso.BuildID
	file  fileID // zero if records have the build ID
	state fileState
	pid   int32 // a process that has it mapped
	at    mapping
	// mapped is the last sweep in which a process had the file mapped.
	mapped int

	// Set when ready.
	im     *dso.Image // closed: its headers
	table  *unwind.Table
	object *unwind.Object
	entry  uint64 // vaddr
	loaded bpf.Table
	has    bool // BPF has the table, as loaded
}

func newMappedFile(m *format.Mmap) *mappedFile {
	f := &mappedFile{name: m.Filename, id: dso.NewBuildID(m.BuildID)}
	if f.id.IsZero() {
		f.file = fileID{m.Maj, m.Min, m.Ino}
	}
	switch {
	case m.Filename == "[uprobes]":
		f.state = fileUprobes
	case m.Filename == dso.VDSO:
	case !strings.HasPrefix(m.Filename, "/") || strings.HasPrefix(m.Filename, "//"):
		f.state = fileFP // code made at run time
	}
	return f
}

// seen stores where the file can be opened: the latest process is the likeliest to live.
func (f *mappedFile) seen(m *format.Mmap) {
	f.pid, f.at = m.PID, mapping{start: m.Start, end: m.Start + m.Len, pgoff: m.Pgoff}
}

// unload drops the table, until another sample needs it.
func (f *mappedFile) unload() { f.state, f.im, f.table, f.object = fileUnknown, nil, nil, nil }

// kernelMapping returns the mapping for the BPF programs.
func (m *mapping) kernelMapping() bpf.Mapping {
	k := bpf.Mapping{Start: m.start, End: m.end, Table: bpf.TablePending}
	switch m.file.state {
	case fileReady:
		bias, ok := m.file.im.Bias(m.start, m.end, m.pgoff)
		if k.Bias, k.Table = bias, m.file.loaded.Index(); !ok {
			k.Table = bpf.TableFP
		}
	case fileFP:
		k.Table = bpf.TableFP
	case fileUprobes:
		k.Table = bpf.TableUprobes
		k.Start-- // functions return to its first byte, and return addresses are looked up minus 1
	}
	return k
}

// paths returns the names under which the file may be opened: in the process's root, through
// its mapping, in this process's root.
func (f *mappedFile) paths() []string {
	return []string{
		fmt.Sprintf("/proc/%d/root%s", f.pid, f.name),
		fmt.Sprintf("/proc/%d/map_files/%x-%x", f.pid, f.at.start, f.at.end),
		f.name,
	}
}

// open opens the mapped file; it rejects another file of the same name.
func (f *mappedFile) open() (*dso.Image, error) {
	if f.name == dso.VDSO {
		return new(dso.Locator).Find(dso.VDSO, f.id)
	}
	err := fmt.Errorf("open %s: %w", f.name, dso.ErrNoFile)
	for _, path := range f.paths() {
		im, e := dso.Open(path)
		if e != nil {
			if !os.IsNotExist(e) {
				err = e
			}
			continue
		}
		if f.is(im, path) {
			return im, nil
		}
		im.Close()
	}
	return nil, err
}

// is reports whether an image belongs to the file.
func (f *mappedFile) is(im *dso.Image, path string) bool {
	if !f.id.IsZero() {
		return im.BuildID().Matches(f.id)
	}
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Ino == f.file.ino
}

// build makes the file's table. It runs in the background, in state filePending, and sets
// only fields that are not read in this state.
func (f *mappedFile) build(cache *unwind.Cache) error {
	im, err := f.open()
	if err != nil {
		return err
	}
	defer im.Close()
	table, err := cache.Build(im)
	if err != nil {
		return err
	}
	f.im, f.table = im, table
	if h, err := im.Bytes(entryOff, 8); err == nil {
		f.entry = binary.LittleEndian.Uint64(h)
	}
	f.object = unwind.NewObject(table, func() (*unwind.CFI, error) {
		im, err := f.open()
		if err != nil {
			return nil, err
		}
		defer im.Close()
		return unwind.NewCFI(im)
	})
	return nil
}

// code reads the file's code at a vaddr.
func (f *mappedFile) code(vaddr, n uint64) ([]byte, error) {
	im, err := f.open()
	if err != nil {
		return nil, err
	}
	defer im.Close()
	off, ok := im.OffOfVaddr(vaddr)
	if !ok {
		return nil, fmt.Errorf("vaddr %#x of %s: not in the file", vaddr, f.name)
	}
	return im.Bytes(off, n)
}

// entryOff is the position of e_entry in an ELF header.
const entryOff = 24

// builder makes tables in the background.
type builder struct {
	cache   *unwind.Cache
	jobs    chan *mappedFile
	done    chan built
	wake    func()
	stop    atomic.Bool
	running sync.WaitGroup
}

type built struct {
	file *mappedFile
	err  error
}

func newBuilder(wake func()) *builder {
	cache, _ := unwind.NewCache() // without a home directory there is no cache, and nil caches nothing
	b := &builder{cache: cache, jobs: make(chan *mappedFile, maxJobs), done: make(chan built, maxJobs), wake: wake}
	for range max(1, runtime.NumCPU()/2) {
		b.running.Go(b.run)
	}
	return b
}

func (b *builder) run() {
	for f := range b.jobs {
		if b.stop.Load() {
			return
		}
		b.done <- built{f, f.build(b.cache)}
		b.wake()
	}
}

// maxJobs is the maximum number of tables waiting to be made.
const maxJobs = 1 << 12

// request starts making a file's table in the background, unless that was requested before.
// If too many requests are open, it does nothing: the next sample requests the table again.
func (b *builder) request(f *mappedFile) {
	if f.state != fileUnknown {
		return
	}
	select {
	case b.jobs <- f:
		f.state = filePending
	default:
	}
}

func (b *builder) close() {
	b.stop.Store(true)
	close(b.jobs)
	b.running.Wait()
}
