package table

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/inspect"
	"gperf/internal/intern"
	"gperf/internal/parallel"
	"gperf/internal/session"
	"gperf/report/key"
)

// Loader reads recordings into a Table. It needs about 33 bytes per sample, and the memory of the distinct stacks.
type Loader struct {
	MaxStack int  // how many frames of a callchain count, 0 for all
	NoInline bool // omits inlined functions
	// Weight is the field of tracepoints that session.Weight made the periods from; "" for none.
	Weight string
	// Exact keeps functions of the same name apart, and addresses without a symbol, as gperf report does, and sets the
	// fields of functions and frames that say where they are.
	Exact bool
	// Words are keys that divide the samples, besides the fields of each event with few values.
	Words []string
	// Origins adds the host, file and boot of each recording to the fields of the samples.
	Origins bool
	// Shared is names of files by their own: files of several recordings with one name are one.
	Shared map[string]string
	// Ticks makes Add call Tick for each value, between samples: Table may be called then, to see a recording that is
	// still made. An error of Tick ends Add.
	Ticks <-chan time.Time
	Tick  func() error

	table     Table
	events    map[string]uint16
	threads   map[Thread]int32 // without names that come later
	unnamed   []*Input         // whose threads may still get names
	groups    map[string]int32 // by key.Group.ID
	dsos      map[string]int32
	functions map[Function]int32
	frames    map[Frame]int32
	nodes     intern.Table
	chains    []session.StackKey // by stack; zero for those with names
	// The indexes in Table.Frames of frames: of callchains, and of others.
	chainFrames session.ByFrame[[]int32]
	otherFrames map[*session.Frame][]int32
	line        []int32 // of tableFrames, used again
}

// maxGroups limits the combinations of fields' values in a Table without Words. Samples with others belong to no group.
const maxGroups = 100_000

// threadKey identifies a thread while one recording is read.
type threadKey struct {
	thread *session.Thread
	comm   string
	named  bool // comm is a name
}

func (l *Loader) init() {
	l.events, l.threads, l.groups = map[string]uint16{}, map[Thread]int32{}, map[string]int32{}
	l.dsos, l.functions, l.frames = map[string]int32{}, map[Function]int32{}, map[Frame]int32{}
	l.chainFrames, l.otherFrames = session.ByFrame[[]int32]{}, map[*session.Frame][]int32{}
	addNode(&l.nodes, &l.table.Nodes, Node{Parent: -1, Frame: -1})
}

// Source is a recording to add.
type Source struct {
	Path     string
	Session  *session.Session
	Baseline bool // the others are compared with it; add it before them
}

// Add reads the samples of a recording. The result counts the skipped parts of the file.
func (l *Loader) Add(src Source) (format.Skipped, error) {
	in, err := NewInput(l, src)
	if err != nil {
		return format.Skipped{}, err
	}
	return src.Session.Walk(session.WalkOptions{Names: true, KeepChains: true, Ticks: l.Ticks, Tick: l.Tick}, in.batch)
}

// NewInput adds a recording whose samples the caller passes to Count, in a walk with Names and KeepChains.
func NewInput(l *Loader, src Source) (*Input, error) {
	if l.events == nil {
		l.init()
	}
	s, t := src.Session, &l.table
	in := &Input{loader: l, session: s, threads: map[threadKey]int32{}, groups: map[*key.Group]int32{},
		recording: int32(len(t.Recordings))}
	t.Recordings = append(t.Recordings, Recording{Path: src.Path, Baseline: src.Baseline, Cmdline: s.File.Cmdline(),
		About: inspect.Facts(s.File), Start: t.Len(), First: math.MaxUint64})
	var err error
	opts := key.Options{Words: slices.Clone(l.Words), Few: true, Origin: s.Origin}
	if l.Origins {
		opts.Words = append(opts.Words, session.OriginKeys...)
	}
	if in.fields, err = key.New(s.File, s.Symbols, opts); err != nil {
		return nil, err
	}
	for i := range s.File.Attrs {
		in.events = append(in.events, l.event(newEvent(s.File, i, l.Weight)))
	}
	l.unnamed = append(l.unnamed, in)
	return in, nil
}

// newEvent returns event i of a file. weight is Loader.Weight.
func newEvent(f *format.File, i int, weight string) Event {
	return Event{Name: f.EventName(i), Unit: session.EventUnit(f, i, weight), Kind: KindOf(f, i),
		Clock: f.Attrs[i].IsClock() && weight == ""}
}

// event returns the index in Table.Events of the first event with this name.
func (l *Loader) event(e Event) uint16 {
	id, ok := l.events[e.Name]
	if !ok {
		id = uint16(len(l.table.Events))
		l.events[e.Name] = id
		l.table.Events = append(l.table.Events, e)
	}
	return id
}

// KindOf returns the kind of the samples of event i of a file.
func KindOf(f *format.File, i int) Kind {
	a, t := &f.Attrs[i], f.Tracepoint(i)
	switch {
	case session.IsWait(a):
		return Wait
	case session.IsWaker(a):
		return Waking
	case t == nil && session.SamplesCPU(a):
		return OnCPU
	case t == nil:
		return Mark
	case t.Field("below") != nil && t.Field("duration") == nil && t.System == "span":
		return Bucket
	case t.Field("duration") != nil && t.Field("start") != nil:
		return Span
	case t.Field("reason") != nil && (t.Field("location") != nil || t.Field("flow") != nil):
		return Drop
	}
	return Mark
}

// Input is one recording while it is read.
type Input struct {
	loader    *Loader
	session   *session.Session
	recording int32
	events    []uint16 // index in Table.Events, by index in File.Attrs
	fields    *key.Keys
	stacks    Tallies[struct{}, int32] // the sum is the index in Table.Stacks
	threads   map[threadKey]int32
	groups    map[*key.Group]int32
}

func (in *Input) batch(b *session.Batch) error {
	for i := range b.Samples {
		in.Count(&b.Samples[i])
	}
	b.Release()
	return nil
}

// Count adds a sample.
func (in *Input) Count(s *session.Sample) {
	c, r := &in.loader.table.Columns, &in.loader.table.Recordings[in.recording]
	cpu, flags := int16(-1), Flags(0)
	if in.session.File.Attrs[s.Event].SampleType&format.SampleCPU != 0 {
		cpu = int16(s.CPU)
	}
	if in.session.Idle(s) {
		flags = Idle
	}
	if s.Guest() {
		flags |= guest
	}
	c.Time, c.Event = append(c.Time, s.Time), append(c.Event, in.events[s.Event])
	c.Thread, c.CPU = append(c.Thread, in.thread(s)), append(c.CPU, cpu)
	c.Stack, c.Weight = append(c.Stack, in.stack(s)), append(c.Weight, s.Period)
	c.Group, c.Flags = append(c.Group, in.group(s)), append(c.Flags, flags)
	r.First, r.Last = min(r.First, s.Time), max(r.Last, s.Time)
	r.Samples++
}

// Stacks returns the number of distinct stacks, which determines the memory.
func (in *Input) Stacks() int { return len(in.stacks.List) }

// Event returns the index in Table.Events of event i of the recording's file.
func (in *Input) Event(i int) int { return int(in.events[i]) }

func (in *Input) thread(s *session.Sample) int32 {
	k := threadKey{s.Thread, s.Comm, s.Named}
	id, ok := in.threads[k]
	if !ok {
		l := in.loader
		id = intern.Index(l.threads, &l.table.Threads, Thread{Recording: in.recording, PID: s.PID, TID: s.TID,
			Comm: s.Comm, Recorded: s.Comm, Process: s.Thread.Leader().Comm})
		in.threads[k] = id
	}
	return id
}

// nameThreads gives threads the names that they got after the samples.
func (l *Loader) nameThreads() {
	for _, in := range l.unnamed {
		for k, id := range in.threads {
			t := &l.table.Threads[id]
			if t.Last = k.thread.Comm; !k.named {
				t.Comm = k.thread.FirstComm
			}
		}
	}
}

func (in *Input) stack(s *session.Sample) int32 {
	k := s.StackKey()
	if in.loader.Exact {
		k.Leaf = s.Leaf
	}
	t, added := in.stacks.At(nil, 0, k)
	if added {
		t.Sum = int32(len(in.loader.chains))
		in.loader.chains = append(in.loader.chains, t.StackKey)
	}
	return t.Sum
}

func (in *Input) group(s *session.Sample) int32 {
	g := in.fields.Of(s)
	id, ok := in.groups[g]
	if !ok {
		id = in.loader.group(g)
		in.groups[g] = id
	}
	return id
}

// group returns the index in Table.Groups of a group, -1 for none.
func (l *Loader) group(g *key.Group) int32 {
	id, ok := l.groups[g.ID]
	switch {
	case len(g.Values) == 0, !ok && l.Words == nil && len(l.table.Groups) >= maxGroups:
		return -1
	case !ok:
		id = int32(len(l.table.Groups))
		l.groups[g.ID] = id
		l.table.Groups = append(l.table.Groups, Group{g.Values})
	}
	return id
}

// NameFrames names the frames that were read so far. The sessions of their recordings are not used any more, so that
// their memory can be freed, except with Exact.
func (l *Loader) NameFrames() {
	l.addNewStacks()
	l.nameThreads()
	l.unnamed = nil
	l.chainFrames, l.otherFrames = session.ByFrame[[]int32]{}, map[*session.Frame][]int32{}
}

// Table returns the samples that were read so far. It looks up the names of new frames on all CPUs. Later calls of Add
// leave the table as it is.
func (l *Loader) Table() *Table {
	l.addNewStacks()
	l.nameThreads()
	t := l.table
	t.Recordings, t.Threads = slices.Clone(t.Recordings), slices.Clone(t.Threads) // Add changes them
	t.index()
	return &t
}

// addNewStacks names the new frames, and adds the stacks to the table.
func (l *Loader) addNewStacks() {
	if l.events == nil {
		l.init()
	}
	stacks := l.chains[len(l.table.Stacks):]
	l.nameStacks(slices.Values(stacks))
	for i, k := range stacks {
		l.table.Stacks = append(l.table.Stacks, l.node(0, l.tableFrames(k)...))
		stacks[i] = session.StackKey{} // it keeps the recording's frames in memory
	}
}

// frameFunctions is a frame of the recording with functions.
type frameFunctions struct {
	frame     *session.Frame
	in        *session.Callchains // nil: in otherFrames
	functions []session.Function
}

// nameStacks names the frames of stacks that are not known yet.
func (l *Loader) nameStacks(stacks iter.Seq[session.StackKey]) {
	var list []frameFunctions
	for f, in := range session.FramesOfStacks(stacks, cmp.Or(l.MaxStack, math.MaxInt)) {
		known := l.otherFrames[f] != nil
		if in != nil {
			known = l.chainFrames.Get(in, f) != nil
		}
		if !known {
			list = append(list, frameFunctions{frame: f, in: in})
		}
	}
	parallel.Do(len(list), func(i int) { list[i].functions = list[i].frame.Functions(!l.NoInline) })
	for _, f := range list {
		ids := l.newFrames(f.frame, f.functions)
		if f.in == nil {
			l.otherFrames[f.frame] = ids
		} else {
			l.chainFrames.Set(f.in, f.frame, ids)
		}
	}
}

// functionIn returns a function without a name in the file of a frame.
func (l *Loader) functionIn(f *session.Frame) Function {
	kind := f.Kind()
	return Function{DSO: l.dso(f), Kernel: f.Kernel, JIT: kind == session.KindJIT || kind == session.KindRuntime}
}

// newFrames returns the indexes in Table.Frames of a frame's functions, innermost first.
func (l *Loader) newFrames(f *session.Frame, functions []session.Function) (ids []int32) {
	at := l.functionIn(f)
	if l.Exact && f.Sym() == nil {
		return []int32{l.address(at, f, f.IP)}
	}
	for _, fn := range functions {
		at.Name = fn.Name
		frame := Frame{File: fn.File, Line: int32(fn.Line), Start: int32(fn.Start), Inlined: fn.Inlined}
		if sym := f.Sym(); l.Exact {
			if at.Start, at.Inlined = sym.Start, fn.Inlined; !fn.Inlined {
				at.Name = sym.Name
			}
			frame.Off, frame.Return = f.Off(), f.Return
		}
		frame.Function = l.function(at, f)
		ids = append(ids, intern.Index(l.frames, &l.table.Frames, frame))
	}
	if len(ids) > 0 {
		return ids
	}
	at.Name, at.Unnamed = f.Label(), true
	frame := Frame{Function: intern.Index(l.functions, &l.table.Functions, at)}
	return []int32{intern.Index(l.frames, &l.table.Frames, frame)}
}

// function returns the index of a function in Table.Functions.
func (l *Loader) function(at Function, f *session.Frame) int32 {
	id := intern.Index(l.functions, &l.table.Functions, at)
	if l.Exact && int(id) == len(l.table.Origins) {
		l.table.Origins = append(l.table.Origins, f)
	}
	return id
}

// address returns the index in Table.Frames of an address without a symbol.
func (l *Loader) address(at Function, f *session.Frame, addr uint64) int32 {
	if at.Name, at.Unnamed, at.Start = fmt.Sprintf("0x%016x", addr), true, addr; addr == 0 {
		at.Name = "0000000000000000" // as perf prints it
	}
	return intern.Index(l.frames, &l.table.Frames, Frame{Function: l.function(at, f)})
}

// dso returns the index of a frame's DSO. With a baseline, those with the same last part of the path are one: a program
// may have been built in another directory. So they are with Exact, as gperf report prints this part.
func (l *Loader) dso(f *session.Frame) int32 {
	d := DSO{f.DSO(), f.Map.ShortDSO()}
	switch shared := l.Shared[d.Name]; {
	case shared != "":
		d.Name = shared
	case l.Exact, l.table.Recordings[0].Baseline:
		return l.dsoOf(d.Short, d)
	}
	return l.dsoOf(d.Name, d)
}

// dsoOf returns the index in Table.DSOs of the first file with this key.
func (l *Loader) dsoOf(key string, d DSO) int32 {
	id, ok := l.dsos[key]
	if !ok {
		id = int32(len(l.table.DSOs))
		l.dsos[key] = id
		l.table.DSOs = append(l.table.DSOs, d)
	}
	return id
}

// tableFrames returns the frames of a stack as indexes in Table.Frames, innermost first, until the next call.
func (l *Loader) tableFrames(k session.StackKey) []int32 {
	chain, frames := k.Chain.Cut(cmp.Or(l.MaxStack, math.MaxInt)), l.line[:0]
	switch {
	case k.Leaf == nil:
	case l.Exact && k.Leaf.Sym() == nil:
		// perf distinguishes sampled addresses without a symbol by their place in the file, and frames of callchains,
		// which include the sampled one, by their ips.
		frames = append(frames, l.address(l.functionIn(k.Leaf), k.Leaf, k.Leaf.Map.SampledAddr(k.Leaf.IP)))
	default:
		frames = append(frames, l.otherFrames[k.Leaf]...)
		// The callchain begins with the interrupted instruction, which may be some after the sampled one.
		if chain.Len() > 0 && chain.Frame(0).Sym() == k.Leaf.Sym() {
			chain = chain.Skip(1)
		}
	}
	known := l.chainFrames[k.Chain.In]
	for _, part := range [...]session.Part{chain.Kernel, chain.User} {
		for _, id := range part.IDs {
			frames = append(frames, known[id]...)
		}
	}
	l.line = frames
	return frames
}

// node returns the node to which frames, innermost first, lead from another node, and adds the missing ones.
func (l *Loader) node(at int32, frames ...int32) int32 {
	for i := len(frames) - 1; i >= 0; i-- {
		at = addNode(&l.nodes, &l.table.Nodes, Node{Parent: at, Frame: frames[i]})
	}
	return at
}

// addNode returns the index of a node in a list, and adds it if it is missing. index contains the list's nodes.
func addNode(index *intern.Table, list *[]Node, node Node) int32 {
	h := (uint64(uint32(node.Parent))<<32 | uint64(uint32(node.Frame))) * 0x9e3779b97f4a7c15
	i, added := index.Add(uint32(h>>32), func(i int32) bool { return (*list)[i] == node })
	if added {
		*list = append(*list, node)
	}
	return i
}
