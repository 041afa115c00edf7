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
	"gperf/symbolize/dso"
	"gperf/unwind"
)

// fileState says how stacks are walked through a file's code.
type fileState uint8

const (
	fileUnknown fileState = iota // nobody has come by yet
	filePending                  // its table is being made
	fileReady                    // by table
	fileFP                       // by frame pointers: there is nothing else
	fileUprobes                  // where uretprobes have functions return to
)

// mappedFile is a file with code that some process has mapped, or what has no
// file.
type mappedFile struct {
	name  string
	id    dso.BuildID
	file  fileID // zero if records tell the build ID
	state fileState
	pid   int32 // one that has it mapped
	at    mapping
	// mapped is the last sweep in which a process had it mapped.
	mapped int

	// Set when ready.
	im     *dso.Image // closed: its headers
	table  *unwind.Table
	object *unwind.Object
	entry  uint64 // vaddr
	loaded bpf.Table
	has    bool // BPF has it, as loaded
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

// seen keeps where a file can be had: the latest process is the likeliest to live.
func (f *mappedFile) seen(m *format.Mmap) {
	f.pid, f.at = m.PID, mapping{start: m.Start, end: m.Start + m.Len, pgoff: m.Pgoff}
}

// unload forgets the table, until somebody needs it again.
func (f *mappedFile) unload() { f.state, f.im, f.table, f.object = fileUnknown, nil, nil, nil }

// kernelMapping is the mapping as the BPF programs have it.
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
		k.Start-- // returns go to its first byte, and are looked up one byte ahead
	}
	return k
}

// paths are the names under which the file may be opened: as the process sees
// it, through its mapping, as this process sees it.
func (f *mappedFile) paths() []string {
	return []string{
		fmt.Sprintf("/proc/%d/root%s", f.pid, f.name),
		fmt.Sprintf("/proc/%d/map_files/%x-%x", f.pid, f.at.start, f.at.end),
		f.name,
	}
}

// open opens the file itself, and no other one that has its name now.
func (f *mappedFile) open() (*dso.Image, error) {
	if f.name == dso.VDSO {
		return new(dso.Finder).Find(dso.VDSO, f.id)
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

// is tells whether an image is of the file.
func (f *mappedFile) is(im *dso.Image, path string) bool {
	if !f.id.IsZero() {
		return im.BuildID().Matches(f.id)
	}
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Ino == f.file.ino
}

// build makes the file's table. It is called beside the recording, while the
// state is pending, and sets only what nobody looks at till then.
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

// code reads what the file has at a vaddr.
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

// entryOff is where an ELF header has e_entry.
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
	cache, _ := unwind.NewCache() // without a home there is none, and nil keeps nothing
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

// maxJobs is how many tables can wait to be made.
const maxJobs = 1 << 12

// request makes a file's table in the background, unless somebody asked before. With
// far too many requests open it does nothing: the next sample asks again.
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

// mapBuildID returns the build ID of a mapped file, nil if it has none or cannot be read.
func mapBuildID(m *format.Mmap) []byte {
	path := fmt.Sprintf("/proc/%d/root%s", m.PID, m.Filename)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Ino != m.Ino {
		path = fmt.Sprintf("/proc/%d/map_files/%x-%x", m.PID, m.Start, m.Start+m.Len)
	}
	if b, err := dso.BuildIDOf(path); err == nil {
		return b.Bytes()
	}
	return nil
}
