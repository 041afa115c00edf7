package record

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/unwind"
)

// dwarf is a recording's user stacks, walked by BPF. For each drain it reads
// the side band first, then joins what the rings have, and then walks in Go what BPF
// could not: with the mappings as they were at the sample's time, and as soon as
// the tables are there. What BPF needs for the next samples it is given at once.
type dwarf struct {
	bpf         *bpf.Unwinder
	tracepoints map[uint64]bool // that a program is attached to
	probes      map[uint64]bool // tracepoints that are kprobes and uprobes
	joiners     []*joiner
	scanned     []uint64 // by ring: side band up to there is in side
	types       map[uint64]format.SampleType
	fds         []int // of the BPF output events
	j           joined
	side        []sideRecord // not yet told to procs, by time
	procs       *tracker
	last        uint64 // of the side band that is in the rings ahead of what was joined
	builder     *builder
	madeRoom    time.Time // among the tables
	heldBytes   int
	held        []held
	walker      unwind.Unwinder
	view        view
	frames      []unwind.Frame
	maps        []bpf.Mapping
	words       []byte
	sum         UnwindSummary
	verbose     func(string)
	copied      [bpf.NumEnds]uint64 // by why BPF sent them
	copiedBytes uint64
}

// sideRecord is a record of the side band.
type sideRecord struct {
	time uint64
	rec  format.Record
}

// held is a missed sample that waits for tables.
type held struct {
	missed
	space *space
	since time.Time
}

// maxHeld bounds the memory of held samples, in bytes.
const maxHeld = 32 << 20

// maxWait is how long a sample is held.
const maxWait = 3 * time.Second

// UnwindSummary is what became of the user stacks.
type UnwindSummary struct {
	Complete uint64              // reached the outermost frame
	None     uint64              // there was no user stack: kernel threads, processes that were exiting
	Early    [bpf.NumEnds]uint64 // ended before, by why
	Copied   uint64              // of all these, walked outside of the kernel
	Missing  uint64              // samples without anything from BPF
	Missed   uint64              // samples lost because another BPF program was running
	Tables   uint64              // made
	Failed   uint64              // files without a usable table
}

// published is how the BPF programs know a process.
type published struct {
	tgid, exec uint32
	on         bool
}

// run is how the BPF programs know a space.
type run struct {
	mappings bpf.Mappings
	has      bool
	dirty    bool // mappings are not those of the space any more
}

// newDWARF loads the programs for the events.
func newDWARF(o *Options) (*dwarf, error) {
	events := o.Events
	if len(events) == 0 {
		events = []Event{defaultEvent}
	}
	cpus, err := bpf.NumCPU()
	if err != nil {
		return nil, err
	}
	d := &dwarf{tracepoints: map[uint64]bool{}, probes: map[uint64]bool{}, types: map[uint64]format.SampleType{}, verbose: o.Verbose}
	var programs []bpf.Program
	for i := range events {
		if events[i].Tracepoint != "" {
			d.probes[events[i].Config] = o.Tracefs.isProbe(events[i].Tracepoint)
		}
		if p, ok := d.program(&events[i]); ok && !slices.Contains(programs, p) {
			programs = append(programs, p)
		}
	}
	u, err := bpf.Load(bpf.Options{Programs: programs, CPUs: cpus, PerTask: !o.Target.byCPU()})
	if err != nil {
		return nil, err
	}
	d.bpf = u
	d.procs = newTracker(d.gone)
	d.walker.MaxDepth = bpf.MaxFrames
	return d, nil
}

// program is what an event's stacks are walked by; events that take no samples
// have none.
func (d *dwarf) program(e *Event) (bpf.Program, bool) {
	switch {
	case e.Type == format.TypeTracepoint && d.probes[e.Config]:
		return bpf.OnProbe, true
	case e.Type == format.TypeTracepoint:
		return bpf.OnTracepoint, true
	case e.Type == format.TypeSoftware && e.Config == swDummy:
		return "", false
	}
	return bpf.OnEvent, true
}

// attach has the BPF programs run for the counters, and their output come to
// the rings.
func (d *dwarf) attach(r *recorder) error {
	events := map[uint64]sampleLayout{}
	for i := range r.attrs {
		l := newSampleLayout(&r.attrs[i])
		for _, id := range r.attrs[i].IDs {
			events[id] = l
			d.types[id] = r.attrs[i].SampleType
		}
	}
	d.procs.buildIDs = r.kernelBuildIDs()
	for _, ring := range r.rings {
		cpu := r.cpuOf(ring)
		var fds [2]int
		for i, wakeups := range [2]uint32{0, 1} { // frames can wait; a copy tells that something is missing
			c, err := d.openOutput(ring, cpu, wakeups, &r.attrs[0])
			if err != nil {
				return fmt.Errorf("BPF output of CPU %d: %w", cpu, err)
			}
			id, err := c.id()
			if err != nil {
				return err
			}
			events[id] = sampleLayout{output: true, chain: -1}
			fds[i] = c.fd
		}
		if err := d.bpf.SetOutput(cpu, fds[0], fds[1]); err != nil {
			return err
		}
		d.joiners = append(d.joiners, &joiner{ring: ring, events: events, tally: &r.tally})
		d.scanned = append(d.scanned, ring.read)
	}
	d.builder = newBuilder(r.signal)
	return nil
}

// opened has a program run for a counter, as soon as there is one: what inherits
// the counter from then on has the program too.
func (d *dwarf) opened(ev *Event, c *counter) error {
	p, ok := d.program(ev)
	switch {
	case !ok:
		return nil
	case ev.Type == format.TypeTracepoint:
		return d.openedTracepoint(ev, p)
	}
	return d.bpf.Attach(c.fd, p)
}

// openedTracepoint has a program run for a tracepoint or probe. It is attached once, to
// a counter that is there for nothing else: since about Linux 6.10, the
// program goes as soon as the first counter goes that inherited from the one it
// is attached to.
func (d *dwarf) openedTracepoint(ev *Event, p bpf.Program) error {
	if d.tracepoints[ev.Config] {
		return nil
	}
	d.tracepoints[ev.Config] = true
	a := format.Attr{Type: ev.Type, Config: ev.Config, SamplePeriod: 1, Flags: format.FlagDisabled}
	fd, err := perfEventOpen(&a, 0, -1)
	if err != nil {
		return err
	}
	d.fds = append(d.fds, fd)
	return d.bpf.Attach(fd, p)
}

// fileAttrs are the attrs as the file has them: the samples' callchains have
// their user part, whoever found it.
func (r *recorder) fileAttrs() []format.Attr {
	l := slices.Clone(r.attrs)
	for i := range l {
		if r.dwarf != nil {
			l[i].Flags &^= format.FlagExcludeCallchainUser
		}
	}
	return l
}

// holds tells whether samples of the round are still to be written.
func (r *recorder) holds() bool { return r.dwarf != nil && len(r.dwarf.held) > 0 }

// cpuOf returns the CPU that a ring is of.
func (r *recorder) cpuOf(ring *Ring) int {
	for i := range r.counters {
		if r.counters[i].fd == ring.fd {
			return r.counters[i].cpu
		}
	}
	return -1
}

const swBPFOutput = 10 // PERF_COUNT_SW_BPF_OUTPUT

// openOutput opens an event that BPF programs write to, on a ring.
func (d *dwarf) openOutput(ring *Ring, cpu int, wakeups uint32, like *format.Attr) (*counter, error) {
	a := format.Attr{Type: format.TypeSoftware, Config: swBPFOutput, SampleType: outputSample, SamplePeriod: 1, Wakeup: wakeups,
		Flags: like.Flags & format.FlagUseClockID, ClockID: like.ClockID}
	fd, err := perfEventOpen(&a, -1, cpu)
	if err != nil {
		return nil, err
	}
	d.fds = append(d.fds, fd)
	if err := ring.attach(fd); err != nil {
		return nil, err
	}
	return &counter{cpu: cpu, tid: -1, fd: fd}, nil
}

func (d *dwarf) close() {
	if d.builder != nil {
		d.builder.close()
	}
	for _, fd := range d.fds {
		unix.Close(fd)
	}
	d.bpf.Close()
}

// drain moves what is in the rings to write.
func (d *dwarf) drain(write func([]byte) error) (total int, err error) {
	heads := make([]uint64, len(d.joiners))
	for i, n := range d.joiners {
		heads[i] = n.ring.written()
	}
	for i := range d.joiners {
		d.scan(i, heads[i])
	}
	for i := range d.side {
		d.last = max(d.last, d.side[i].time)
	}
	// What happened before a sample on another CPU may have been written after the
	// other ring's head was read: it is there by now.
	for i, n := range d.joiners {
		d.scan(i, n.ring.written())
	}
	slices.SortStableFunc(d.side, func(a, b sideRecord) int { return cmp.Compare(a.time, b.time) })
	d.j.out = d.j.out[:0]
	for i, n := range d.joiners {
		total += int(heads[i] - n.ring.read)
		n.join(&d.j, heads[i])
	}
	d.walkMissed()
	d.tablesDone()
	d.publish()
	if len(d.j.out) > 0 {
		if err := write(d.j.out); err != nil {
			return 0, err
		}
	}
	for i, n := range d.joiners {
		n.ring.release(heads[i])
	}
	return total, nil
}

// scan reads the side band of a ring up to head.
func (d *dwarf) scan(i int, head uint64) {
	r := d.joiners[i].ring
	pos := d.scanned[i]
	for pos < head {
		h := r.word(pos)
		size := h >> 48
		if size < 8 || size > head-pos {
			break
		}
		switch t := format.Type(uint32(h)); t {
		case format.TypeMmap, format.TypeMmap2, format.TypeFork, format.TypeExit, format.TypeComm:
			d.tell(r.append(nil, pos, pos+size)) // kept, and referred to
		case format.TypeLost:
			d.side = append(d.side, sideRecord{rec: &format.Lost{}})
		}
		pos += size
	}
	d.scanned[i] = head
}

// tell keeps a record of the side band for when its time comes.
func (d *dwarf) tell(b []byte) {
	h := binary.LittleEndian.Uint64(b)
	id := binary.LittleEndian.Uint64(b[len(b)-8:])
	rec, err := format.ParseRecord(format.Raw{Type: format.Type(uint32(h)), Misc: format.Misc(h >> 32), Data: b[8:]}, d.types[id])
	if err != nil {
		return
	}
	var time uint64
	switch rec := rec.(type) {
	case *format.Mmap:
		time = rec.ID.Time
		if !rec.Executable() {
			return
		}
	case *format.Fork:
		time = rec.ID.Time
	case *format.Exit:
		time = rec.ID.Time
	case *format.Comm:
		time = rec.ID.Time
		if !rec.Exec {
			return
		}
	}
	d.side = append(d.side, sideRecord{time, rec})
}

// synthesized takes the records that the recorder made itself.
func (d *dwarf) synthesized(b []byte, idSize int) {
	for len(b) >= 8 {
		size := int(binary.LittleEndian.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			return
		}
		raw := format.Raw{Type: format.Type(binary.LittleEndian.Uint32(b)), Misc: format.Misc(binary.LittleEndian.Uint16(b[4:])),
			Data: b[8:max(8, size-idSize)]}
		switch raw.Type {
		case format.TypeMmap2:
			if rec, err := format.ParseRecord(raw, 0); err == nil {
				d.procs.record(rec)
			}
		case format.TypeFork:
			if rec, err := format.ParseRecord(raw, 0); err == nil && rec.(*format.Fork).PID == rec.(*format.Fork).TID {
				d.procs.replace(rec.(*format.Fork).PID, &space{})
			}
		}
		b = b[size:]
	}
}

// until tells procs what happened up to a time.
func (d *dwarf) until(time uint64) {
	i := 0
	for ; i < len(d.side) && d.side[i].time <= time; i++ {
		switch rec := d.side[i].rec.(type) {
		case *format.Lost:
			d.procs.forget()
		case *format.Fork:
			d.procs.record(rec)
			d.forked(rec)
		case *format.Comm:
			d.exec(rec)
		default:
			d.procs.record(rec)
		}
	}
	d.side = slices.Delete(d.side, 0, i)
}

// forked lets a child of a sampled process be walked from its first sample on.
func (d *dwarf) forked(rec *format.Fork) {
	parent, child := d.procs.byPID[rec.PPID], d.procs.byPID[rec.PID]
	if rec.PID == rec.PPID || parent == nil || child == nil || !parent.on || parent.tgid != uint32(parent.pid) {
		return
	}
	child.published = published{uint32(child.pid), parent.exec, true}
	d.procs.touch(child)
}

// exec has a process begin anew. The next exec is the one after the last.
func (d *dwarf) exec(rec *format.Comm) {
	var p published
	if old := d.procs.byPID[rec.PID]; old != nil {
		p = old.published
		p.exec++
	}
	d.procs.record(rec)
	if proc := d.procs.byPID[rec.PID]; proc != nil && p.on {
		proc.published = p
		d.procs.touch(proc)
	}
}

// gone has BPF forget a process, whose pid another may get.
func (d *dwarf) gone(p *process) {
	if p.on {
		d.bpf.RemoveProcess(p.tgid)
	}
	d.unused(p.space)
}

// unused gives back what BPF has of a space that nobody uses any more.
func (d *dwarf) unused(s *space) {
	if s.refs == 0 && s.has {
		d.bpf.RemoveMappings(s.mappings)
		s.has = false
	}
}

// walkMissed walks what BPF could not, as far as tables are there.
func (d *dwarf) walkMissed() {
	slices.SortStableFunc(d.j.missed, func(a, b missed) int { return cmp.Compare(a.time, b.time) })
	for i := range d.j.missed {
		m := &d.j.missed[i]
		d.until(m.time)
		h := held{missed: *m}
		if d.heldBytes < maxHeld {
			h.since = time.Now() // else it cannot wait
		}
		if p := d.procs.get(m.pid); p != nil {
			h.space = p.space
			if !p.on || p.exec != m.head.Exec {
				p.published = published{m.head.TGID, m.head.Exec, true}
				d.procs.touch(p)
			}
		}
		if d.walk(&h) {
			continue
		}
		h.space.refs++ // and so is kept as it is
		d.heldBytes += len(h.data)
		d.held = append(d.held, h)
	}
	d.j.missed = d.j.missed[:0]
	d.until(d.last)
}

// walk walks the stack of a missed sample and adds it to the file. It is false if
// that has to wait for a table.
func (d *dwarf) walk(h *held) bool {
	regs := unwind.Regs{}
	le := binary.LittleEndian
	const rip, rsp, rbp = 16, 7, 6
	at := func(n int) uint64 { return le.Uint64(h.data[8*n:]) }
	regs = unwind.NewRegs(elf.EM_X86_64, at(rip), at(rsp), at(rbp))
	for n := range rip {
		regs.Set(n, at(n))
	}
	stack := unwind.Stack{Addr: at(rsp), Bytes: h.data[8*bpf.NumRegs:][:h.head.Stack]}
	d.view = view{space: h.space}
	var why unwind.Reason
	d.frames, why = d.walker.Walk(d.frames[:0], &regs, &stack, &d.view)
	if f := d.view.missing; f != nil && time.Since(h.since) < maxWait {
		if f.state == fileUnknown {
			d.builder.request(f)
		}
		return false
	}
	if why == unwind.NoRule && len(d.frames) == 1 {
		why = d.guess(h, &regs, &stack)
	}
	d.words = d.words[:0]
	for _, f := range d.frames {
		d.words = le.AppendUint64(d.words, f.IP)
	}
	d.sum.Copied++
	d.copied[h.head.End]++
	d.copiedBytes += uint64(len(h.data))
	d.j.ends[endOf(why, d.view.missing != nil)]++
	d.j.add(h.sample, h.chain, d.words)
	return true
}

// guess goes on from an innermost frame that no entry covers as the BPF programs
// do (by_guess in unwind.bpf.c).
func (d *dwarf) guess(h *held, regs *unwind.Regs, stack *unwind.Stack) unwind.Reason {
	if d.view.atEntry(regs.IP()) {
		return unwind.EndOfStack
	}
	const words = 3
	for sp := regs.SP(); sp < regs.SP()+8*words; sp += 8 {
		ra, ok := stack.Word(sp)
		if !ok || !d.view.called(ra) {
			continue
		}
		n := len(d.frames)
		caller := unwind.NewRegs(elf.EM_X86_64, ra-1, sp+8, regs.FP())
		var why unwind.Reason
		d.frames, why = d.walker.Walk(d.frames, &caller, stack, &d.view)
		d.frames[n] = unwind.Frame{IP: ra, Return: true}
		return why
	}
	return unwind.NoRule
}

// endOf returns BPF's word for why a walk in Go ended.
func endOf(why unwind.Reason, missing bool) bpf.End {
	if missing {
		return bpf.EndNoTable
	}
	switch why {
	case unwind.EndOfStack:
		return bpf.EndEntry
	case unwind.NoMapping:
		return bpf.EndNoMapping
	case unwind.NoTable:
		return bpf.EndFP
	case unwind.Unreadable:
		return bpf.EndUnreadable
	case unwind.Depth:
		return bpf.EndDepth
	}
	return bpf.EndNoRule
}

// view is a space as the walk in Go sees it.
type view struct {
	space   *space
	m       unwind.Mapping
	missing *mappedFile // whose table the walk came to miss
}

func (v *view) Mapping(ip uint64) *unwind.Mapping {
	if v.space == nil {
		return nil
	}
	i := v.space.find(ip)
	if i < 0 {
		return nil
	}
	m := &v.space.maps[i]
	v.m = unwind.Mapping{Start: m.start, End: m.end}
	switch m.file.state {
	case fileUnknown, filePending:
		v.missing = m.file
		return nil
	case fileReady:
		if bias, ok := m.file.bias(m); ok {
			v.m.Bias, v.m.Object = bias, m.file.object
		}
	}
	return &v.m
}

// entrySize is how long the code at a program's entry is: it has no caller.
const entrySize = 64

// atEntry tells whether ip is where a program begins.
func (v *view) atEntry(ip uint64) bool {
	m := v.Mapping(ip)
	if m == nil || m.Object == nil {
		return false
	}
	f := v.space.maps[v.space.find(ip)].file
	return f.entry != 0 && ip-m.Bias-f.entry < entrySize
}

// called tells whether there is a call ahead of ip: e8 with 4 bytes, or ff /2
// with up to 6.
func (v *view) called(ip uint64) bool {
	m := v.Mapping(ip)
	if m == nil || m.Object == nil {
		return false
	}
	b, err := v.space.maps[v.space.find(ip)].file.code(ip-m.Bias-8, 8)
	if err != nil {
		return false
	}
	if b[3] == 0xe8 {
		return true
	}
	for _, i := range [...]int{6, 5, 4, 2, 1} {
		if b[i] == 0xff && b[i+1]&0x38 == 0x10 {
			return true
		}
	}
	return false
}

// tablesDone takes the tables that were made, and walks what waited for them.
func (d *dwarf) tablesDone() {
	any := false
	for {
		select {
		case b := <-d.builder.done:
			d.tableDone(b)
			any = true
			continue
		default:
		}
		break
	}
	if len(d.held) == 0 || !any && time.Since(d.held[0].since) < maxWait {
		return
	}
	kept := d.held[:0]
	for _, h := range d.held {
		if !d.walk(&h) {
			kept = append(kept, h)
			continue
		}
		h.space.refs--
		d.heldBytes -= len(h.data)
		d.unused(h.space)
	}
	clear(d.held[len(kept):])
	d.held = kept
}

func (d *dwarf) tableDone(b built) {
	f := b.file
	f.state = fileReady
	if b.err == nil {
		f.loaded, b.err = d.bpf.AddTable(f.table, f.entry)
	}
	if full := (*bpf.FullError)(nil); errors.As(b.err, &full) && d.makeRoom() {
		f.unload() // the next sample asks for it again
		return
	}
	if b.err != nil {
		f.state = fileFP
		d.sum.Failed++
		if d.verbose != nil && !errors.Is(b.err, unwind.ErrNoCFI) {
			d.verbose("no unwind table: " + b.err.Error())
		}
	} else {
		f.has = true
		d.sum.Tables++
		if d.verbose != nil {
			d.verbose(fmt.Sprintf("unwind table of %s: %d rows, %d rules", f.name, len(f.table.Rows), len(f.table.Rules)))
		}
	}
	d.changed(func(g *mappedFile) bool { return g == f })
}

// changed has BPF told again of the mappings of some files.
func (d *dwarf) changed(is func(*mappedFile) bool) {
	for _, p := range d.procs.byPID {
		if p.on && slices.ContainsFunc(p.space.maps, func(m mapping) bool { return is(m.file) }) {
			p.space.dirty = true
			d.procs.touch(p)
		}
	}
}

// makeRoom takes the tables from BPF that no walk has come by since the last
// time, or all of them. There is room a little later (and perhaps it is being
// made already). It is false if there is nothing to take.
func (d *dwarf) makeRoom() bool {
	if time.Since(d.madeRoom) < time.Second {
		return true
	}
	d.madeRoom = time.Now()
	var idle, busy []*mappedFile
	for _, f := range d.procs.files {
		switch {
		case !f.has:
		case d.bpf.TakeUsed(f.loaded):
			busy = append(busy, f)
		default:
			idle = append(idle, f)
		}
	}
	if len(idle) == 0 {
		idle = busy
	}
	for _, f := range idle {
		f.unload()
	}
	d.changed(func(f *mappedFile) bool { return f.state == fileUnknown })
	d.publish()
	for _, f := range idle {
		d.bpf.RemoveTable(f.loaded)
		f.has = false
	}
	return len(idle) > 0
}

// publish gives BPF the mappings that have changed.
func (d *dwarf) publish() {
	var old []bpf.Mappings
	for _, p := range d.procs.touched {
		if !p.on || d.procs.byPID[p.pid] != p {
			continue
		}
		if s := p.space; s.dirty || !s.has {
			if s.has {
				old = append(old, s.mappings)
			}
			if err := d.setSpace(s); err != nil {
				d.fail(err)
				d.withdraw()
				break
			}
		}
		d.setProcess(p)
	}
	for _, m := range old {
		d.bpf.RemoveMappings(m)
	}
	clear(d.procs.touched)
	d.procs.touched = d.procs.touched[:0]
}

func (d *dwarf) setSpace(s *space) (err error) {
	d.maps = d.maps[:0]
	for i := range s.maps {
		d.maps = append(d.maps, s.maps[i].kernelMapping())
	}
	s.has = false
	if s.mappings, err = d.bpf.AddMappings(d.maps); err != nil {
		return err
	}
	s.has, s.dirty = true, false
	return nil
}

func (d *dwarf) setProcess(p *process) {
	if err := d.bpf.SetProcess(p.tgid, p.exec, p.space.mappings); err != nil {
		d.fail(err)
		p.on = false
	}
}

// withdraw makes room: BPF forgets all processes, and is told again of those
// that are sampled.
func (d *dwarf) withdraw() {
	for _, p := range d.procs.byPID {
		if p.on {
			d.bpf.RemoveProcess(p.tgid)
			p.on = false
		}
		if p.space.has {
			d.bpf.RemoveMappings(p.space.mappings)
			p.space.has = false
		}
	}
}

// fail tells of something that costs speed, or a few stacks.
func (d *dwarf) fail(err error) {
	if d.verbose != nil {
		d.verbose(err.Error())
	}
}

// finish waits for the tables that samples are held for, and adds what counts
// at the end.
func (d *dwarf) finish(write func([]byte) error) error {
	for len(d.held) > 0 {
		time.Sleep(time.Millisecond)
		if _, err := d.drain(write); err != nil {
			return err
		}
	}
	d.sum.Missing = d.j.single
	if d.verbose != nil {
		for end, n := range d.copied {
			if n > 0 {
				d.verbose(fmt.Sprintf("%d stacks unwound in user space: %v", n, bpf.End(end)))
			}
		}
		d.verbose(fmt.Sprintf("copies of stacks: %d bytes", d.copiedBytes))
	}
	st := d.bpf.Stats()
	d.sum.Missed = st.Missed
	if d.verbose != nil && st.Runs > 0 {
		d.verbose(fmt.Sprintf("BPF programs ran %d times, %d ns each", st.Runs, uint64(st.RunTime)/st.Runs))
	}
	d.sum.Early = d.j.ends
	d.sum.Complete, d.sum.Early[bpf.EndEntry] = d.j.ends[bpf.EndEntry], 0
	d.sum.None, d.sum.Early[bpf.EndNoUser] = d.j.ends[bpf.EndNoUser], 0
	return nil
}
