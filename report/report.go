// Package report aggregates samples. It makes histograms and writes them as text,
// as `perf report --stdio` does.
//
// internal/session finds the thread and DSO of an address, symbolize its name,
// and format/tracepoint prints a tracepoint's data. Package script prints single
// samples, and package export writes samples for other programs.
//
// Samples that nothing distinguishes are counted as one stack (count.go), and then
// stacks that only differ in addresses that nothing shows (fold.go). Each becomes an
// entry of its event's histogram, and adds to the entries of its callers (fill.go, by
// the keys of sort.go). An entry's callchains are merged into a tree (chain.go), which
// graph.go draws. So the work grows with the distinct stacks, not with the samples.
package report

import (
	"errors"
	"io"
	"regexp"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// Parents are the functions for the key parent.
type Parents struct {
	Match *regexp.Regexp // nil: DefaultParent
	Show  bool           // the key parent is added to the others
	Only  bool           // omit entries without a parent
}

// Options select the content of a report. The zero value shows the same as perf for samples
// without callchains.
type Options struct {
	Sort         string // keys, separated by commas; "" is perf's choice, a leading + adds to it
	Fields       string // columns, comma-separated too; "" for the keys of the other options
	Empty        bool   // Histograms also returns histograms of events without samples
	NoChildren   bool   // a callee's samples do not count for callers
	Graph        CallGraph
	MaxStack     int     // frames of a callchain that count
	PercentLimit float64 // omit entries below it
	Samples      bool    // a column with the number of samples
	Period       bool    // a column with the sum of periods
	CPUModes     bool    // columns for kernel and user
	Inline       bool    // callchains include the calls that were inlined
	FullPath     bool    // the keys srcline and srcfile show whole paths
	Separator    string  // between columns, instead of blanks; "" aligns them
	RawTrace     bool    // tracepoint fields as numbers, not as their print fmt shows them
	Header       bool    // print the file's header first
	Latency      bool    // columns of latencies come first
	Quiet        bool    // only the entries
	Relative     bool    // percentages are relative to the samples that pass the filters
	Resolved     bool    // samples, and frames of callchains, without a symbol do not count
	SymbolFilter string  // omit entries whose symbols do not contain it
	Widths       []int   // of the columns; 0, or none, for one as wide as the texts
	Threads      ThreadCounts
	TimeQuantum  uint64 // width of the key time's intervals in ns, 0 for perf's default
	Nanosecs     bool   // the key time shows nine digits
	Verbose      bool   // show paths of DSOs, and addresses and origins of symbols
	Hierarchy    bool   // entries of the first key, below each the entries of the next
	// IgnoreCallees matches functions that get the samples of callees; nil: none.
	IgnoreCallees *regexp.Regexp
	Filter        Filter
	Mode          Mode     // samples or branches
	Branches      Branches // whether the file may choose ModeBranches
	Groups        Groups
	Parents       Parents
	Weight        string // the field that session.Weight made the periods from
	Look          text.Style

	chains  bool // an event records callchains
	history bool // branches are added to callchains
	counts  bool // graphs show the figures of branches
	live    bool // a table of Live
	csv     bool // no text of perf
}

// Mode says which addresses a report counts.
type Mode int

const (
	ModeSamples  Mode = iota // samples by period
	ModeBranches             // the branches of samples
	ModeMemory               // samples by weight
)

// Branches says when to choose ModeBranches.
type Branches int

const (
	BranchesDefault Branches = iota // if the recording was made for them
	BranchesOff
)

// Groups says how to show events of a group.
type Groups int

const (
	GroupsDefault  Groups = iota // events recorded as a group in one block
	GroupsTogether               // all in one block if there are no groups
	GroupsApart                  // each event in a block
)

// Filter drops samples from the entries. They still count in the totals, so that
// percentages refer to the complete recording. A nil list matches all.
type Filter struct {
	session.Filter
	Where session.Where
}

// Text writes a block for each event with samples, as `perf report --stdio` does.
// The session keeps exited threads (session.Options.KeepExited). The result counts the
// skipped parts of the file. Errors include ErrNoSamples and KeyError.
func Text(w io.Writer, s *session.Session, opts Options) (format.Skipped, error) {
	c, skipped, err := countAll(s, &opts)
	if err != nil {
		return skipped, err
	}
	hists := c.foldLast(s).hists()
	c.correctCounts(hists)
	err = write(w, c.layouts, &opts, hists, s.Lost.Samples)
	if err == nil && opts.Threads != ThreadsOff {
		err = c.threads.print(w, s.File, opts.Threads)
	}
	return skipped, err
}

// Histograms returns the histogram of each event with samples, or of all with Empty. The session and the errors
// are the same as Text's.
func Histograms(s *session.Session, opts Options) ([]*Hist, format.Skipped, error) {
	c, skipped, err := countAll(s, &opts)
	if err != nil {
		return nil, skipped, err
	}
	return c.fold(s).hists(), skipped, nil
}

// countAll counts the stacks of a recording, and adapts the options to it.
func countAll(s *session.Session, opts *Options) (*counter, format.Skipped, error) {
	l, err := opts.layoutsOf(s.File)
	if err != nil {
		return nil, format.Skipped{}, err
	}
	c := newCounter(s.File, nil, l, opts, newTraces(s.File, s.Symbols, opts.RawTrace))
	skipped, err := c.walk(s)
	if err != nil {
		return nil, skipped, err
	}
	l.dropLatency(opts, c.samples, c.serial)
	return c, skipped, nil
}

// layoutsOf adapts the options to a file, and returns the layouts of the file's events.
func (o *Options) layoutsOf(f *format.File) (*layouts, error) {
	if err := o.adapt(f); err != nil {
		return nil, err
	}
	l, err := newLayouts(f, o)
	if err != nil {
		return nil, err
	}
	if l.uses()&usesParent != 0 && !o.chains {
		return nil, errNoCallchains
	}
	return l, nil
}

// walk counts the samples of a session.
func (c *counter) walk(s *session.Session) (format.Skipped, error) {
	c.session = s
	opts := session.WalkOptions{AsPerf: !c.opts.csv, Names: true, KeepChains: true, LeafOnly: !readsChains(c, s)}
	if c.opts.Threads != ThreadsOff {
		opts.Records = []format.Type{format.TypeRead}
	}
	skipped, err := s.Walk(opts, c.count)
	c.stacks.Close()
	if err != nil {
		return skipped, err
	}
	s.Misses = c.opts.Filter.Misses()
	c.nameThreads()
	if c.opts.Inline || c.opts.Graph.ByAddress {
		session.LookUpCalls(c.shownFrames())
	}
	return skipped, nil
}

// readsChains reports whether anything reads the callchains of samples: the keys and the graph of an event, or the
// session.
func readsChains(c *counter, s *session.Session) bool {
	keys := func(l *layout) bool { return slices.ContainsFunc(l.derived, key.ReadsChain) }
	return slices.Contains(c.chains, true) || slices.ContainsFunc(c.layouts.byEvent, keys) || s.ReadsChains()
}

// fold folds the counted stacks.
func (c *counter) fold(s *session.Session) *folding {
	stacks := c.stacks.List
	c.stacks.List = nil // the histograms keep only the folded ones
	return newFolding(c.file, c.layouts, c.opts, c.traces, s.Rank, s.MapSize, stacks)
}

// foldLast is fold after the session's last walk: it frees the callchains.
func (c *counter) foldLast(s *session.Session) *folding {
	var chains *session.Callchains
	if i := slices.IndexFunc(c.stacks.List, func(st *stack) bool { return st.Chain.In != nil }); i >= 0 {
		chains = c.stacks.List[i].Chain.In
	}
	f := c.fold(s)
	if chains != nil {
		chains.Drop()
	}
	return f
}

// errNoBranches: branch mode is requested, but the samples contain no branches.
var errNoBranches = errors.New("no event was recorded with branches: record with -b")

// errNoCallchains: the key parent needs callchains, but there are none.
var errNoCallchains = errors.New("sort key parent needs callchains: record with -g")

// adapt adjusts the options to the file: it disables callchains if no event records them, and
// chooses the order, and the mode if the options leave it open.
func (o *Options) adapt(f *format.File) error {
	var all format.SampleType
	for i := range f.Attrs {
		all |= f.Attrs[i].SampleType
	}
	recorded := f.Has(format.FeatureBranchStack) && !f.Pipe
	o.chooseMode(recorded, all)
	o.counts = o.history && recorded
	if o.Mode == ModeBranches && all&format.SampleBranchStack == 0 {
		return errNoBranches
	}
	if o.Graph.Order == OrderDefault {
		o.Graph.Order = Callee
		if !o.NoChildren {
			o.Graph.Order = Caller
		}
	}
	if o.Mode != ModeSamples { // perf chose the order before this point
		o.NoChildren = true
	}
	o.chains = all&format.SampleCallchain != 0
	if !o.chains {
		o.NoChildren = true
		if !o.Graph.Branches || all&format.SampleBranchStack == 0 {
			o.Graph.Mode = GraphNone
		}
	}
	if f.Pipe { // perf reads the attrs after this point
		o.NoChildren = true
	}
	return nil
}

// chooseMode selects branch mode for recordings of branches, except with stack
// copies: perf then treats the branches as part of callchains.
func (o *Options) chooseMode(recorded bool, all format.SampleType) {
	if o.Mode == ModeSamples && !o.history && o.Branches == BranchesDefault && recorded &&
		all&format.SampleStackUser == 0 {
		o.Mode = ModeBranches
	}
}
