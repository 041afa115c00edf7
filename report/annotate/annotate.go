// Package annotate counts samples by instruction and writes the code of the
// functions with the count of each instruction, as `perf annotate --stdio` does.
//
// Besides the sampled ip, a sample may hold code addresses in the fields of a
// tracepoint, for example the location of skb:kfree_skb, and return addresses in
// its callchain. Both count for the call instruction.
//
// Samples with the same addresses are counted as one (count.go). A function's
// share of them becomes a block of text (block.go), with code from symbolize,
// disassembled by report/annotate/disasm.
package annotate

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/annotate/disasm"
)

// Options say what to annotate and how. The zero value shows all functions with
// samples.
type Options struct {
	Place        Place
	DSOs         []string // only these, nil for all
	Callers      bool     // count the calls of callchains; implied if Place is one address
	PercentLimit float64  // omit functions with a smaller share of the event
	Syntax       disasm.Syntax
	Raw          bool // the bytes of instructions
	NoSource     bool // no source lines between the instructions
	Lines        bool // the source line after each instruction with samples, and a sum of lines at the top
	FullPaths    bool
	Column       Column
	Percent      PercentType
	Context      int // number of instructions before and after Place, if that is one address
	Sources      Sources
	Look         text.Style // only its colours matter
}

// Column is a kind of number printed before an instruction.
type Column int

const (
	Percents Column = iota
	Samples
	Periods
)

// PercentType is the base of percentages: the zero value is perf's local-period.
type PercentType struct {
	Global bool // of the event, not of the function
	Hits   bool // count samples, not their periods
}

// ErrNoSamples: the recording contains no samples.
var ErrNoSamples = errors.New("no samples")

// Text writes a block for each selected function of each event, the most sampled
// first. The session keeps exited threads (session.Options.KeepExited). skipped counts
// the skipped parts of the file; missing lists the reasons of missing functions, each
// once, and the first *HiddenError. If all are missing, the first reason is err. Other errors are ErrNoSamples,
// *UnknownError, *NoSamplesError and *OffsetError.
func Text(w io.Writer, s *session.Session, opts Options) (skipped format.Skipped, missing []error, err error) {
	c := newCounter(s, &opts)
	if skipped, err = s.Walk(session.WalkOptions{Names: true, KeepChains: true}, c.count); err != nil {
		return skipped, nil, err
	}
	c.assign()
	s.Misses = c.misses()
	list, err := c.chosen()
	if err != nil {
		return skipped, nil, err
	}
	out := bufio.NewWriter(w)
	a := &annotator{sym: s.Symbols, opts: &opts, files: map[sourceKey][]string{}}
	shown := 0
	for _, fn := range list {
		text, err := a.block(fn)
		if err != nil {
			missing = appendNew(missing, err)
			continue
		}
		shown++
		if _, err := out.Write(text); err != nil {
			return skipped, missing, err
		}
	}
	if shown == 0 {
		return skipped, missing[1:], missing[0]
	}
	if a.hidden != nil {
		missing = append(missing, a.hidden)
	}
	return skipped, missing, out.Flush()
}

// appendNew appends an error unless the list contains one with the same text.
func appendNew(list []error, err error) []error {
	if slices.ContainsFunc(list, func(e error) bool { return e.Error() == err.Error() }) {
		return list
	}
	return append(list, err)
}

// chosen returns the functions to show, in order.
func (c *counter) chosen() ([]*function, error) {
	if c.samples == 0 {
		return nil, ErrNoSamples
	}
	p := &c.opts.Place
	list := c.functions
	if !p.isZero() {
		list = slices.DeleteFunc(slices.Clone(list), func(fn *function) bool { return !p.matches(fn) })
		if len(list) == 0 {
			return nil, c.unknown()
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), func(fn *function) bool {
		return fn.total.Samples == 0 || p.isZero() && !c.worth(fn)
	})
	if len(list) == 0 {
		return nil, &NoSamplesError{Name: p.String(), Calls: c.calls(p)}
	}
	slices.SortStableFunc(list, func(a, b *function) int {
		return cmp.Or(cmp.Compare(a.event.index, b.event.index), cmp.Compare(b.total.Period, a.total.Period),
			cmp.Compare(b.total.Samples, a.total.Samples))
	})
	return list, nil
}

// worth reports whether a function is shown if Place is empty.
func (c *counter) worth(fn *function) bool {
	return fn.symbol() != nil && 100*share(fn.total.Period, fn.event.total.Period) >= c.opts.PercentLimit
}

// calls is the number of samples with a place in the callchain.
func (c *counter) calls(p *Place) (n uint64) {
	for _, fn := range c.functions {
		if p.matches(fn) {
			n += fn.calls
		}
	}
	return n
}

// unknown returns the error of an unknown Place, with the functions with samples.
func (c *counter) unknown() error {
	e := &UnknownError{Name: c.opts.Place.String()}
	for _, fn := range c.functions {
		if s := fn.symbol(); s != nil && !slices.Contains(e.Names, s.Name) {
			e.Names = append(e.Names, s.Name)
		}
	}
	return e
}

func share(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}
