// Warnings about incomplete recordings, skipped parts, and files without symbols.

package input

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/symbolize"
)

// Warnings collects the warnings to print.
type Warnings struct {
	session.Summary
	Recordings int
	Lines      bool // the user asked for source lines
	Verbose    bool // list all files
	AsPerf     bool // print perf's messages about files without symbols
	packed     int  // number of recordings in archives
	field      string
	omitted    uint64 // samples without field
	noIdle     bool
	hidesWaits bool
	missed     int // recordings in which filters selected no sample
	skipped    []damage
	counts     []string // recordings of perf stat, by path
	incomplete bool     // a recording is truncated, or no part of it was usable
	kernel     []error  // why kernels lack symbols, each once
	shares     map[session.DSOFile]float64
	unresolved []symbolize.Unresolved
	lineless   []symbolize.Unresolved
	debug      []error // of debug information
}

// damage is the skipped parts of a recording.
type damage struct {
	path string
	format.Skipped
}

// Recording is a recording that was read.
type Recording struct {
	Path    string
	Packed  bool // in an archive
	Session *session.Session
	Weight  *session.Weight // nil for none
	Misses  []session.Miss  // why the filters selected no sample
	Skipped format.Skipped
}

// Add adds a recording.
func (l *Warnings) Add(r Recording) {
	s := r.Session
	l.addSummary(&s.Summary)
	l.Recordings++
	if r.Packed {
		l.packed++
	}
	if w := r.Weight; w != nil {
		l.field = w.Field
		l.omitted += w.Omitted
	}
	l.noIdle, l.hidesWaits = s.NoIdle, s.NoIdleWaits
	l.addMisses(slices.Concat(r.Misses, s.Misses))
	if r.Skipped.Count > 0 {
		l.skipped = append(l.skipped, damage{r.Path, r.Skipped})
	}
	if s.File.Has(format.FeatureStat) {
		l.counts = append(l.counts, r.Path)
	}
	damaged := r.Skipped.Count > 0 || len(s.File.Warnings) > 0 && s.File.Complete
	l.incomplete = l.incomplete || s.File.Truncated || damaged && s.Walked() && s.Samples == 0
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
func (l *Warnings) addSummary(s *session.Summary) {
	l.Samples += s.Samples
	l.Unnamed += s.Unnamed
	l.Waits.All += s.Waits.All
	l.Waits.Idle += s.Waits.Idle
	l.OnlyLeaf += s.OnlyLeaf
	l.Cut += s.Cut
	l.CutSize = max(l.CutSize, s.CutSize)
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

// AddSymbols adds the files in which a symbolizer found no names.
func (l *Warnings) AddSymbols(s *symbolize.Symbolizer) {
	l.unresolved = mergeUnresolved(l.unresolved, s.Unresolved())
	l.debug = append(l.debug, s.Damage()...)
	if l.Lines {
		l.lineless = mergeUnresolved(l.lineless, s.Lineless())
	}
}

// mergeUnresolved adds the counts of files to the counts of others, sorted as one symbolizer's.
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

// Print prints the warnings; servers prints those about servers of symbols. It returns whether a recording is truncated
// or contains no usable part.
func (l *Warnings) Print(stderr io.Writer, servers func(io.Writer)) (incomplete bool) {
	if lost := lostText(l.Lost); lost != "" {
		fmt.Fprintf(stderr, "gperf: %s while recording: use a larger ring (gperf record -m) or fewer events\n", lost)
	}
	if n := l.Unknown; n.Count > 0 {
		fmt.Fprintf(stderr, "gperf: skipped %d records of unknown types, the first: %v\n", n.Count, n.First)
	}
	if t := l.Traced; t.Records > 0 {
		perf := ""
		if t.By.DecodedByPerf() {
			perf = ", perf does"
		}
		fmt.Fprintf(stderr, "gperf: skipped %d AUXTRACE records with %d bytes of %s: gperf does not decode them%s\n",
			t.Records, t.Bytes, t.By, perf)
	}
	if l.Late > 0 {
		fmt.Fprintf(stderr, "gperf: %d records arrived too late and may be out of order\n", l.Late)
	}
	if l.omitted > 0 {
		fmt.Fprintf(stderr, "gperf: omitted %d samples, which have no field %s\n", l.omitted, l.field)
	}
	l.warnMisses(stderr)
	if l.noIdle && l.Unnamed > 0 {
		fmt.Fprintf(stderr, "gperf: --no-idle: %d samples of idle tasks remain, whose functions have no names: "+
			"name the kernel's symbols with --kallsyms or -k\n", l.Unnamed)
	}
	if l.hidesWaits && !l.noIdle && l.Waits.Idle > 0 {
		fmt.Fprintf(stderr, "gperf: left out idle, %.1f %% of the time of waits: threads without work; "+
			"gperf report --idle shows it\n", 100*float64(l.Waits.Idle)/float64(l.Waits.All))
	}
	if l.OnlyLeaf > 0 {
		fmt.Fprintf(stderr, "gperf: %d stacks of 32-bit Arm programs have only the sampled function: "+
			"gperf does not unwind them; record with --call-graph fp\n", l.OnlyLeaf)
	}
	l.warnCut(stderr)
	for _, path := range l.counts[:min(len(l.counts), MaxDamaged)] {
		fmt.Fprintf(stderr, "gperf: %s contains counts of perf stat record, no samples: "+
			"perf stat report -i %[1]s prints them\n", path)
	}
	for _, d := range l.skipped[:min(len(l.skipped), MaxDamaged)] {
		WarnSkipped(stderr, d.path, d.Skipped)
	}
	if n := len(l.skipped) - MaxDamaged; n > 0 {
		fmt.Fprintf(stderr, "gperf: parts of %d more recordings were skipped\n", n)
	}
	servers(stderr)
	for _, err := range l.kernel[:min(len(l.kernel), maxUnresolved)] {
		fmt.Fprintf(stderr, "gperf: no %v\n", err)
	}
	l.warnUnresolved(stderr)
	return l.incomplete
}

// MaxDamaged is how many damaged recordings are listed.
const MaxDamaged = 20

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

// WarnSkipped reports the skipped parts of a recording.
func WarnSkipped(stderr io.Writer, path string, skipped format.Skipped) {
	switch skipped.Count {
	case 0:
	case 1:
		fmt.Fprintf(stderr, "gperf: %s: damaged: 1 part was skipped: %v\n", path, skipped.First)
	default:
		fmt.Fprintf(stderr, "gperf: %s: damaged: %d parts were skipped, the first: %v\n", path, skipped.Count,
			skipped.First)
	}
}

// warnCut names the remedy if the stacks of at least 1 % of the samples are larger than the copies.
func (l *Warnings) warnCut(stderr io.Writer) {
	const percent = 100
	if l.Cut*percent < max(l.Samples, 1) {
		return
	}
	how := "record with gperf record -g, which copies no stacks"
	if size := min(4*l.CutSize, format.MaxSampleStackUser); size > l.CutSize {
		how += fmt.Sprintf(", or with larger copies (--call-graph dwarf,copy,%d)", size)
	}
	fmt.Fprintf(stderr, "gperf: %d stacks are larger than their copies of %d bytes: %s\n", l.Cut, l.CutSize, how)
}
