package tui

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/gdamore/tcell/v2"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report"
	"gperf/report/annotate"
	"gperf/report/export"
	"gperf/report/table"
	"gperf/report/view"
)

// Recording is an open recording to show.
type Recording struct {
	Session *session.Session
	// Reopen opens the recording again, with the samples that match an expression. It is nil for a pipe.
	Reopen   func(where string) (s *session.Session, closing func(), err error)
	MaxStack int
	NoInline bool
	Annotate annotate.Options
	// Comms, PIDs and TIDs select threads, see Threads.
	Comms      []string
	PIDs, TIDs []int32
}

// Load reads the samples into the options. The session keeps exited threads (session.Options.KeepExited).
func (o *Options) Load(r Recording) (format.Skipped, error) {
	o.Usual = report.EventKeys(r.Session.File, false)
	l := r.loader(o)
	skipped, err := l.Add(table.Source{Path: o.Path, Session: r.Session})
	if err != nil {
		return skipped, err
	}
	o.Table = l.Table()
	o.Filter.Threads = threads(o.Table, r.Comms, r.PIDs, r.TIDs)
	o.Children = o.Children && !r.Session.File.Pipe && // as in gperf report
		slices.ContainsFunc(r.Session.File.Attrs, func(a format.Attr) bool {
			return a.SampleType&format.SampleCallchain != 0
		})
	o.Code = func(function int32, at map[table.Spot]table.Sum) ([]annotate.Line, error) {
		return r.code(l.Table().Origins[function], at)
	}
	if r.Reopen != nil {
		o.Export, o.Select = r.exports(), r.selects(*o)
	}
	return skipped, nil
}

// selects returns Options.Select for these options.
func (r Recording) selects(o Options) func(where string) (Options, func(), error) {
	return func(where string) (Options, func(), error) {
		s, closing, err := r.Reopen(where)
		if err != nil {
			return o, nil, err
		}
		again := o
		again.Where, r.Session = where, s
		if _, err := again.Load(r); err != nil {
			closing()
			return o, nil, err
		}
		return again, closing, nil
	}
}

// loader returns a loader of samples with the keys of the options.
func (r Recording) loader(o *Options) table.Loader {
	lists := [][]string{o.Keys}
	if o.Keys == nil {
		lists = slices.Collect(maps.Values(o.Usual))
	}
	l := table.Loader{MaxStack: r.MaxStack, NoInline: r.NoInline, Exact: true}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...)))) {
		if table.IsField(name) {
			l.Words = append(l.Words, name)
		}
	}
	return l
}

// code returns the lines of the function of a frame, with its samples by address.
func (r Recording) code(origin *session.Frame, at map[table.Spot]table.Sum) ([]annotate.Line, error) {
	counts := map[annotate.Spot]annotate.Stat{}
	for spot, s := range at {
		counts[annotate.Spot(spot)] = annotate.Stat{Samples: s.Samples, Period: s.Weight}
	}
	return annotate.Code(r.Session.Symbols, origin, counts, r.Annotate)
}

// exports returns functions that read the recording again.
func (r Recording) exports() Exports {
	exported := func(write func(*export.StackSet, io.Writer) error, labels bool) func(io.Writer, Selection) error {
		return func(w io.Writer, keep Selection) error {
			s, closing, err := r.Reopen(keep.Where)
			if err != nil {
				return err
			}
			defer closing()
			set := &export.StackSet{MaxStack: r.MaxStack, NoInline: r.NoInline, Processes: labels, Threads: labels,
				CPUs: labels, Fields: labels, Idle: !labels}
			set.Keep = func(sample *session.Sample) bool { return keep.matches(s.File, sample) }
			if _, err := set.Add(s); err != nil {
				return err
			}
			return write(set, w)
		}
	}
	return Exports{
		Folded: exported(func(s *export.StackSet, w io.Writer) error {
			return s.Folded(w, export.FoldedOptions{Event: true, Inline: true})
		}, false),
		Pprof: exported(func(s *export.StackSet, w io.Writer) error { return s.Pprof(w) }, true),
		FlameGraph: exported(func(s *export.StackSet, w io.Writer) error {
			return view.Export(w, s.Table(), view.About{Title: s.Title()})
		}, false),
	}
}

// matches reports whether a selection has a sample.
func (k *Selection) matches(f *format.File, s *session.Sample) bool {
	if f.EventName(s.Event) != k.Event || s.Time < k.From || k.To > 0 && s.Time > k.To ||
		k.Threads != nil && !k.Threads[Thread{s.PID, s.TID, s.Comm}] || k.DSO != "" && s.Leaf.Map.ShortDSO() != k.DSO {
		return false
	}
	if k.Function == "" {
		return true
	}
	for i := range s.Chain.Len() {
		frame := s.Chain.Frame(i)
		if hasFunction(frame, k.Function) {
			return true
		}
	}
	return s.Chain.Len() == 0 && hasFunction(s.Leaf, k.Function)
}

// hasFunction reports whether a frame is of a function, or has an inlined one of this name.
func hasFunction(f *session.Frame, name string) bool {
	return slices.ContainsFunc(f.Functions(true), func(fn session.Function) bool { return fn.Name == name })
}

// threads returns a list for table.Filter of threads with one of these names and numbers; nil lists match all.
func threads(t *table.Table, comms []string, pids, tids []int32) []bool {
	if comms == nil && pids == nil && tids == nil {
		return nil
	}
	return t.ThreadsWhere(func(t *table.Thread) bool {
		return (comms == nil || slices.Contains(comms, t.Comm)) && (pids == nil || slices.Contains(pids, t.PID)) &&
			(tids == nil || slices.Contains(tids, t.TID))
	})
}

// NewScreen returns the screen of the user's terminal, which Show takes over.
func NewScreen() (tcell.Screen, error) { return tcell.NewScreen() }

// Show shows a view until the user quits, or ctx is done.
func Show(ctx context.Context, screen tcell.Screen, opts Options) error {
	if err := screen.Init(); err != nil {
		return err
	}
	defer screen.Fini()
	b := New(screen, opts)
	defer context.AfterFunc(ctx, func() { b.later(func() func() { return func() { b.quit = true } }) })()
	b.Run()
	return nil
}
