package bpf

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"gperf/internal/runtimes"
	"gperf/internal/runtimes/hotspot"
	"gperf/unwind"
)

// MaxFrames is the maximum number of frames in a walk.
//
//bpf:define MaxFrames MAX_FRAMES
const MaxFrames = 1024

// Program names one of the programs: the event's type determines which.
type Program string

const (
	OnEvent      Program = "on_event"      // hardware, software and raw events
	OnTracepoint Program = "on_tracepoint" // tracepoints
	OnProbe      Program = "on_probe"      // kprobes and uprobes
)

// MaxRows is the number of rows of all unwind tables together, unless Options.Rows says otherwise; each takes RowSize
// bytes.
const (
	MaxRows = 8 << 20
	RowSize = 4
)

// Options define the sizes of the maps; defaults replace sizes of zero.
type Options struct {
	Programs  []Program // to load
	Rows      uint32    // of all tables together, RowSize bytes each
	Tables    uint32
	Mappings  uint32 // of all processes together, 32 bytes each
	Processes uint32
	Files     uint32 // mappings of files that are walked in unknown processes
	// PerTask restricts sampling to threads with a perf event of the recording.
	PerTask bool
	// Cgroups, if not nil, are IDs of cgroups: only tasks in these, and below them, are recorded.
	Cgroups []uint64
	// CPUs is the maximum number of rings.
	CPUs uint32
}

func (o *Options) setDefaults() {
	for _, d := range []struct {
		field *uint32
		value uint32
	}{{&o.Rows, MaxRows}, {&o.Tables, 4096}, {&o.Mappings, 1 << 17}, {&o.Processes, 16 << 10},
		{&o.Files, 8 << 10}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

// Unwinder holds the loaded programs and the data of the programs.
type Unwinder struct {
	loader    *loader
	coll      *ebpf.Collection // the programs
	processes *ebpf.Map
	files     *ebpf.Map
	mappings  *array[unwindMapping]
	tables    *array[unwindTable]
	pages     *array[unwind.Page]
	rows      *array[unwind.Row]
	rules     *array[unwind.Rule]
	heaps     *array[hotspot.Heap]
	runtimes  *array[runtimes.Walk]
	control   *control
	copies    *array[unwindCopyRoom] // by CPU
	serial    uint64                 // serial of the last added table
	mmaps     link.Link              // nil if the kernel cannot watch mappings
}

// onMmap is the program that runs before the kernel records a new mapping with code.
const onMmap = "on_mmap"

// Load loads the programs. VerifierLog returns the details of the error.
func Load(o Options) (*Unwinder, error) {
	o.setDefaults()
	l := newLoader(nil, o.Cgroups)
	coll, err := l.loadUnwinder(&o)
	if errors.Is(err, unix.EPERM) && VerifierLog(err) == "" {
		err = unix.EPERM // without details: the caller explains missing privileges
	}
	if err != nil {
		return nil, err
	}
	u := &Unwinder{
		loader:    l,
		coll:      coll,
		processes: l.get("processes"),
		files:     l.get("files"),
		mappings:  newArray[unwindMapping](l.get("mappings"), "mappings"),
		tables:    newArray[unwindTable](l.get("tables"), "tables"),
		pages:     newArray[unwind.Page](l.get("pages"), "pages"),
		rows:      newArray[unwind.Row](l.get("rows"), "rows"),
		rules:     newArray[unwind.Rule](l.get("rules"), "rules"),
		copies:    newArray[unwindCopyRoom](l.get("copies"), "CPUs"),
		heaps:     newArray[hotspot.Heap](l.get("code_heaps"), "code heaps"),
		runtimes:  newArray[runtimes.Walk](l.get("runtimes"), "runtimes"),
	}
	if u.control, err = l.control(nil, coll.Programs["identify"]); err == nil {
		_, none := u.runtimes.add(make([]runtimes.Walk, 1)) // 0 means that there is none
		err = errors.Join(u.copies.keep(), u.mappings.keep(), none)
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	// Where the kernel cannot do this, a mapping that replaces another one is known when the recorder reads its record.
	u.mmaps, _ = link.AttachRawTracepoint(link.RawTracepointOptions{Name: "vm_unmapped_area",
		Program: coll.Programs[onMmap]})
	return u, nil
}

func (l *loader) loadUnwinder(o *Options) (*ebpf.Collection, error) {
	spec, err := loadUnwind()
	if err != nil {
		return nil, err
	}
	programs := []string{"identify", onMmap}
	for _, p := range o.Programs {
		programs = append(programs, string(p))
	}
	setSizes(spec, map[string]uint32{
		"processes": o.Processes, "files": o.Files, "mappings": o.Mappings, "tables": o.Tables,
		"rows": o.Rows / 2, // two in each element
		// Typically: a page holds some 700 rows, a table some hundred rules.
		"pages": max(o.Rows/64, 1<<12), "rules": max(o.Rows/32, 1<<16),
		"walks": o.CPUs * o.levels(), "quiet": o.CPUs, "waking": o.CPUs, "copies": o.CPUs,
		"code_heaps": maxHeaps, "runtimes": maxRuntimes,
	})
	return l.load(spec, map[string]any{"per_task": flag(o.PerTask), "cpus": o.CPUs}, programs...)
}

// maxLevels is the number of simultaneous walks on a CPU where programs may interrupt each other.
//
//bpf:define maxLevels LEVELS
const maxLevels = 4

// levels returns the number of simultaneous walks on a CPU, which is above 1 if the programs
// include some that the kernel lets interrupt each other.
func (o *Options) levels() uint32 {
	if slices.Contains(o.Programs, OnProbe) {
		return maxLevels
	}
	return 1
}

// unlockMemory lets this process lock memory without limit: before Linux 5.11,
// BPF maps count as locked.
func unlockMemory() bool {
	l := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l) == nil
}

// VerifierLog returns the log of the kernel's verifier, "" if the error is not the
// verifier's.
func VerifierLog(err error) string {
	var v *ebpf.VerifierError
	if !errors.As(err, &v) {
		return ""
	}
	return fmt.Sprintf("%+v", v)
}

// Close unloads the programs, as soon as no event uses them any more.
func (u *Unwinder) Close() {
	if u.mmaps != nil {
		u.mmaps.Close()
	}
	u.coll.Close()
	u.loader.close()
	u.copies.drop()
	u.mappings.drop()
}

// Enable starts or stops the programs: while they are off, they neither walk stacks nor make
// samples. This includes the programs of a [Sampler] with this Unwinder.
func (u *Unwinder) Enable(on bool) error {
	u.loader.types = nil
	return u.control.set(on)
}

// Attach runs a program before each sample of the event of perf fd. At a tracepoint, a
// program of one event runs for all.
func (u *Unwinder) Attach(fd int, p Program) error {
	prog := u.coll.Programs[string(p)]
	if prog == nil {
		return fmt.Errorf("BPF program %s is not loaded", p)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return fmt.Errorf("attaching BPF program %s: %w", p, err)
	}
	return nil
}

// SetOutput directs a CPU's output to two PERF_COUNT_SW_BPF_OUTPUT events. The recorder must walk copies of
// stacks: the first copy of a burst goes to waking, and so does the copy when a quarter of the room for copies is
// used. All other output goes to quiet.
func (u *Unwinder) SetOutput(cpu, quiet, waking int) error {
	return u.loader.setOutput(cpu, map[string]int{"quiet": quiet, "waking": waking})
}

// SetCopyRoom sets how many bytes of a CPU's ring copies of stacks may take until the next call of SetCopyRoom:
// initially 0, so none are sent. It makes no system call, because a recorder that made one for each drain would
// record itself.
func (u *Unwinder) SetCopyRoom(cpu, bytes int) {
	c := &u.copies.kept[cpu]
	atomic.StoreInt64(&c.Room, int64(bytes))
	atomic.StoreInt64(&c.Low, int64(bytes/4*3))
}

// Stats are counters of the programs.
type Stats struct {
	Runs    uint64        // counted if kernel.bpf_stats_enabled is set
	RunTime time.Duration // counted if kernel.bpf_stats_enabled is set
	Missed  uint64        // runs skipped, or not completed, because others were running: the sample is lost
}

// String describes the run time; the statistics must include runs.
func (s Stats) String() string {
	return fmt.Sprintf("BPF programs ran %d times, %d ns each", s.Runs, uint64(s.RunTime)/s.Runs)
}

// Stats reads the counters of this kernel.
func (u *Unwinder) Stats() (s Stats) {
	for _, p := range u.coll.Programs {
		s.add(p)
	}
	return s
}

func (s *Stats) add(p *ebpf.Program) {
	st, err := p.Stats()
	if err != nil {
		return
	}
	s.Runs += st.RunCount
	s.RunTime += st.Runtime
	s.Missed += st.RecursionMisses
}

// Table is a loaded table.
type Table struct {
	index              uint32
	page, row, rule    uint32 // start of the table in each array
	pages, rows, rules int
}

// AddTable loads a table. entry is the vaddr of a program's first instruction, 0 if the file
// is not a program.
func (u *Unwinder) AddTable(t *unwind.Table, entry uint64) (tab Table, err error) {
	u.serial++
	tab = Table{pages: len(t.Pages), rows: len(t.Rows), rules: len(t.Rules)}
	if tab.row, err = u.rows.add(t.Rows); err != nil {
		return tab, err
	}
	if tab.rule, err = u.rules.add(t.Rules); err != nil {
		u.rows.remove(tab.row, tab.rows)
		return tab, err
	}
	pages := make([]unwind.Page, len(t.Pages))
	for i, p := range t.Pages {
		pages[i] = unwind.Page{First: tab.row + p.First, N: p.N}
	}
	if tab.page, err = u.pages.add(pages); err != nil {
		u.rows.remove(tab.row, tab.rows)
		u.rules.remove(tab.rule, tab.rules)
		return tab, err
	}
	tab.index, err = u.tables.add([]unwindTable{{Base: t.Base, Pages: tab.page, NumPages: uint32(len(pages)),
		Rules: tab.rule, Entry: entry, Serial: u.serial}})
	if err != nil {
		u.rows.remove(tab.row, tab.rows)
		u.rules.remove(tab.rule, tab.rules)
		u.pages.remove(tab.page, tab.pages)
	}
	return tab, err
}

// RemoveTable removes a table; no mapping of any process may refer to it.
func (u *Unwinder) RemoveTable(t Table) {
	u.tables.remove(t.index, 1)
	u.pages.remove(t.page, t.pages)
	u.rows.remove(t.row, t.rows)
	u.rules.remove(t.rule, t.rules)
}

// TakeUsed reports whether a walk used a table since the last call.
func (u *Unwinder) TakeUsed(t Table) (used bool) {
	u.tables.window(t.index, 1, func(l []unwindTable) { used, l[0].Used = l[0].Used != 0, 0 })
	return used
}

// Index returns the table's value for Mapping.Table.
func (t Table) Index() uint32 { return t.index }

// Values of Mapping.Table without a table.
//
//bpf:enum Table TABLE_
const (
	TablePending uint32 = 0xffffffff - iota // not loaded yet: stacks through it are sent as copies
	TableFP                                 // no CFI: walk by frame pointers
	TableUprobes                            // the kernel's return trampoline of uretprobes
	TableMade                               // code made at run time, in memory without a file

	TableHotSpot = 0xfffffff0 // a code heap of HotSpot: Bias is the number from AddHeaps
)

// maxHeaps is the maximum number of code heaps of all processes together.
const maxHeaps = 4096

// AddHeaps loads the code heaps of a Java virtual machine, and returns the number of the
// first one.
func (u *Unwinder) AddHeaps(l []hotspot.Heap) (first uint32, err error) { return u.heaps.add(l) }

// RemoveHeaps removes n code heaps; no mapping of any process may refer to them.
func (u *Unwinder) RemoveHeaps(first uint32, n int) { u.heaps.remove(first, n) }

// maxRuntimes is the maximum number of address spaces with a runtime whose functions are named, plus one.
const maxRuntimes = 4096

// AddRuntime loads where the runtime of an address space keeps frames, and returns the runtime's number for
// SetProcess.
func (u *Unwinder) AddRuntime(w *runtimes.Walk) (number uint32, err error) {
	return u.runtimes.add([]runtimes.Walk{*w})
}

// RemoveRuntime removes a runtime; no process may refer to it.
func (u *Unwinder) RemoveRuntime(number uint32) { u.runtimes.remove(number, 1) }

// Mapping is a mapping of a process that contains code.
type Mapping struct {
	Start, End uint64 // ip
	Bias       uint64 // ip - vaddr
	Table      uint32 // Table.Index, or one of the Table constants
}

// Mappings are the loaded mappings of one or several processes.
type Mappings struct {
	first uint32
	n     int
}

// AddMappings loads mappings, which must be sorted by address.
func (u *Unwinder) AddMappings(l []Mapping) (Mappings, error) {
	elems := make([]unwindMapping, len(l))
	for i, m := range l {
		elems[i] = unwindMapping{Start: m.Start, End: m.End, Bias: m.Bias, Table: m.Table}
	}
	first, err := u.mappings.add(elems)
	return Mappings{first, len(l)}, err
}

// RemoveMappings removes mappings; no process may refer to them any more.
func (u *Unwinder) RemoveMappings(m Mappings) { u.mappings.remove(m.first, m.n) }

// maxAsked limits the copies of stacks that a process may send for addresses outside all
// mappings until it is set again: so many for sampled addresses, GARBAGE times less for others.
const maxAsked = 512

// SetProcess sets the mappings of a process since the exec counted by exec, as in Head.Exec, and the number of the
// process's runtime, 0 if there is none.
//
// stale makes the programs copy stacks: mappings are about to be replaced.
func (u *Unwinder) SetProcess(tgid, exec uint32, m Mappings, runtime uint32, stale bool) error {
	p := unwindProcess{Exec: exec, First: m.first, N: uint32(m.n), Copies: maxAsked, Runtime: runtime,
		Stale: flag(stale)}
	if err := u.processes.Put(tgid, &p); err != nil {
		return fmt.Errorf("mappings of process %d: %w", tgid, err)
	}
	return nil
}

// RemoveProcess removes a process.
func (u *Unwinder) RemoveProcess(tgid uint32) { u.processes.Delete(tgid) }

// FileMapping is a mapping of a file with code, in any process that maps it. The zero value is the vdso.
type FileMapping struct {
	Major, Minor uint32 // of the device
	Inode        uint64
	Changed      time.Time // of the inode's last change (ctime)
	Off          uint64    // of the mapping in the file, in bytes
}

func (m *FileMapping) key() *unwindFileKey {
	if *m == (FileMapping{}) {
		return &unwindFileKey{}
	}
	return &unwindFileKey{Inode: m.Inode, Off: m.Off, Changed: m.Changed.Unix(),
		ChangedNs: uint32(m.Changed.Nanosecond()), Dev: m.Major<<20 | m.Minor}
}

// SetFile makes the programs walk the mapping of a file with a table in all processes that were not set: from Linux 6.1
// on, where the programs can find mappings. bias is ip - vaddr of a mapping at address 0.
func (u *Unwinder) SetFile(m *FileMapping, bias uint64, table uint32) error {
	if err := u.files.Put(m.key(), &unwindFileTable{Bias: bias, Table: table}); err != nil {
		return fmt.Errorf("mapping of a file: %w", err)
	}
	return nil
}

// RemoveFile undoes SetFile.
func (u *Unwinder) RemoveFile(m *FileMapping) { u.files.Delete(m.key()) }

// NumCPU returns the maximum number of rings: the highest CPU number plus one.
func NumCPU() (uint32, error) {
	n, err := ebpf.PossibleCPU()
	return uint32(n), err
}
