package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/symbolize"
)

// findings are what is to be reported after recordings were read: what they lack, and which files have no symbols.
type findings struct {
	session.Summary
	recordings int
	packed     int // number of those in archives
	weight     *session.Weight
	omitted    uint64 // samples without the field of weight
	noIdle     bool
	lines      bool // the user asked for source lines
	verbose    bool
	skipped    []damage
	incomplete bool    // a recording is truncated, or no part of it was usable
	kernel     []error // why kernels have no symbols, each once
	shares     map[session.DSOFile]float64
	unresolved []symbolize.Unresolved
	lineless   []symbolize.Unresolved
	debug      []error // of debug information
	files      *files
}

// damage is the skipped parts of a recording.
type damage struct {
	path string
	format.Skipped
}

// warn prints the final warnings: lost, skipped and unknown records, and unresolved files.
// It returns errReported if the file is truncated, as perf exits with an error then, or if
// no part of it was usable.
func (in *input) warn(stderr io.Writer, skipped format.Skipped) error {
	var l findings
	l.add(in, skipped)
	l.addSymbols(in.session.Symbols)
	return l.print(stderr)
}

// add adds a recording that was read.
func (l *findings) add(in *input, skipped format.Skipped) {
	s := in.session
	l.addSummary(&s.Summary)
	l.recordings++
	if in.Packed != nil {
		l.packed++
	}
	if w := in.weight; w != nil {
		l.weight = w
		l.omitted += w.Omitted
	}
	l.noIdle, l.lines, l.verbose, l.files = s.NoIdle, l.lines || in.lines, in.verbose, cmp.Or(l.files, in.files)
	if skipped.Count > 0 {
		l.skipped = append(l.skipped, damage{in.Path, skipped})
	}
	damaged := skipped.Count > 0 || len(in.File.Warnings) > 0 && in.File.Complete
	l.incomplete = l.incomplete || in.File.Truncated || damaged && s.Walked() && s.Samples == 0
	if err := s.KernelProblem(); err != nil &&
		!slices.ContainsFunc(l.kernel, func(e error) bool { return e.Error() == err.Error() }) {
		l.kernel = append(l.kernel, err)
	}
	if l.shares == nil {
		l.shares = map[session.DSOFile]float64{}
	}
	for file, share := range s.Unresolved() {
		l.shares[file] += share * float64(s.Samples)
	}
}

// addSummary adds the counts of a recording.
func (l *findings) addSummary(s *session.Summary) {
	l.Samples += s.Samples
	l.Unnamed += s.Unnamed
	l.Late += s.Late
	l.Lost.Records += s.Lost.Records
	l.Lost.Samples += s.Lost.Samples
	l.Lost.SideBand += s.Lost.SideBand
	l.Lost.Chunks += s.Lost.Chunks
	l.Unknown.Merge(s.Unknown)
	l.Traced.Records += s.Traced.Records
	l.Traced.Bytes += s.Traced.Bytes
	if s.Traced.Records > 0 {
		l.Traced.By = s.Traced.By
	}
}

// addSymbols adds the files in which a symbolizer found no names.
func (l *findings) addSymbols(s *symbolize.Symbolizer) {
	l.unresolved = mergeUnresolved(l.unresolved, s.Unresolved())
	l.debug = append(l.debug, s.Damage()...)
	if l.lines {
		l.lineless = mergeUnresolved(l.lineless, s.Lineless())
	}
}

// mergeUnresolved adds the counts of files to those of others, sorted as those of one symbolizer.
func mergeUnresolved(l, more []symbolize.Unresolved) []symbolize.Unresolved {
	if len(l) == 0 {
		return more
	}
	known := map[session.DSOFile]int{}
	for i := range l {
		known[session.DSOFile{Path: l[i].Path, ID: l[i].ID}] = i
	}
	for _, u := range more {
		if i, ok := known[session.DSOFile{Path: u.Path, ID: u.ID}]; ok {
			l[i].Missing += u.Missing
			l[i].Asked += u.Asked
		} else {
			l = append(l, u)
		}
	}
	slices.SortStableFunc(l, func(a, b symbolize.Unresolved) int { return cmp.Compare(b.Missing, a.Missing) })
	return l
}

// print prints the warnings. It returns errReported if a recording is incomplete.
func (l *findings) print(stderr io.Writer) error {
	if lost := lostText(l.Lost); lost != "" {
		fmt.Fprintf(stderr, "gperf: %s while recording: use a larger ring (gperf record -m) or fewer events\n", lost)
	}
	if n := l.Unknown; n.Count > 0 {
		fmt.Fprintf(stderr, "gperf: skipped %d records of unknown types, the first: %v\n", n.Count, n.First)
	}
	if t := l.Traced; t.Records > 0 {
		fmt.Fprintf(stderr, "gperf: skipped %d AUXTRACE records with %d bytes of %s: gperf does not decode them, perf "+
			"does\n", t.Records, t.Bytes, t.By)
	}
	if l.Late > 0 {
		fmt.Fprintf(stderr, "gperf: %d records arrived too late and may be out of order\n", l.Late)
	}
	if l.weight != nil && l.omitted > 0 {
		fmt.Fprintf(stderr, "gperf: omitted %d samples, which have no field %s\n", l.omitted, l.weight.Field)
	}
	if l.noIdle && l.Unnamed > 0 {
		fmt.Fprintf(stderr, "gperf: --no-idle: %d samples of idle tasks remain, whose functions have no names: "+
			"name the kernel's symbols with --kallsyms or -k\n", l.Unnamed)
	}
	for _, d := range l.skipped[:min(len(l.skipped), maxDamaged)] {
		warnSkipped(stderr, d.path, d.Skipped)
	}
	if n := len(l.skipped) - maxDamaged; n > 0 {
		fmt.Fprintf(stderr, "gperf: parts of %d more recordings were skipped\n", n)
	}
	l.files.warnServers(stderr)
	for _, err := range l.kernel[:min(len(l.kernel), maxUnresolved)] {
		fmt.Fprintf(stderr, "gperf: no %v\n", err)
	}
	l.warnUnresolved(stderr)
	if l.incomplete {
		return errReported
	}
	return nil
}

// maxDamaged is how many damaged recordings are listed.
const maxDamaged = 20

// lostText describes the lost samples and records in the words of record's summary, or
// returns "". LOST records count the same losses again, for all types of records.
func lostText(l session.Lost) string {
	samples := fmt.Sprintf("%d samples", l.Samples-l.SideBand)
	sideBand := fmt.Sprintf("%d other records (mappings, names of processes)", l.SideBand)
	switch {
	case l.Samples > 0 && l.SideBand == 0:
		return samples + " were lost"
	case l.Samples > 0 && l.SideBand == l.Samples:
		return sideBand + " were lost"
	case l.Samples > 0:
		return samples + " and " + sideBand + " were lost"
	case l.Records > 0:
		return fmt.Sprintf("%d records were lost in %d places", l.Records, l.Chunks)
	}
	return ""
}

func warnSkipped(stderr io.Writer, path string, skipped format.Skipped) {
	switch skipped.Count {
	case 0:
	case 1:
		fmt.Fprintf(stderr, "gperf: %s: damaged: 1 part was skipped: %v\n", path, skipped.First)
	default:
		fmt.Fprintf(stderr, "gperf: %s: damaged: %d parts were skipped, the first: %v\n", path, skipped.Count,
			skipped.First)
	}
}

var errNoneRead = errors.New("no recording could be read")
