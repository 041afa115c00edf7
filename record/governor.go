package record

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/record/perfevent"
)

// governor keeps the recorder's own CPU time within a share of one CPU: it takes fewer samples, and at last none, while
// the recorder uses more.
type governor struct {
	opts *plan
	set  *perfevent.Set

	clocks map[uint64]clock    // by id
	layout format.SampleLayout // ids have the same offset in all samples
	buf    []byte

	level  int
	paused bool
	// postponed means that unwind tables were postponed, which was reported.
	postponed bool
	credit    time.Duration // CPU time that may be used
	at        time.Time     // of the last measurement
	used      time.Duration // CPU time of the process until then
	loan      time.Time     // until when the credit of the start is paid back
	before    time.Duration // credit when the level changed last
	raised    time.Time     // when the level changed last
	warned    time.Time     // when a notice was made last
}

const (
	// creditTime is how long a burst may use the CPU time that was left unused before.
	creditTime = time.Minute
	// startTime is how long the unwind tables of the programs that run at the start may be paid in advance. The loan
	// is paid back within loanTime.
	startTime = 5 * time.Minute
	loanTime  = 30 * time.Minute
	// longestDebt limits for how long a burst is paid off.
	longestDebt = 5 * time.Minute
	measureTime = time.Second
	lowerTime   = 10 * time.Second // minimum time until more samples are taken again
	pauseTime   = 5 * time.Second  // minimum time at maxLevel before a pause
	warnTime    = time.Hour        // minimum time between notices
)

// turn is the action of the recorder that the governor requests.
type turn uint8

const (
	goOn   turn = iota
	pause       // stop all events, and the side band
	resume      // start them again
)

// maxLevel is the level with the fewest samples: a frequency of 1/16, at least 1 Hz, and one of 4096 occurrences.
const maxLevel = 4

// fewer returns a frequency, or a period, at a level.
func fewer(a *format.Attr, level int) uint64 {
	if a.Flags&format.FlagFreq == 0 {
		return a.SamplePeriod << (3 * level)
	}
	freq := max(1, a.SamplePeriod>>level)
	if a.IsClock() { // the kernel gives clocks a fixed period, in ns, when it opens them
		return uint64(time.Second) / freq
	}
	return freq
}

// start begins to measure.
func (g *governor) start() {
	if g.opts.MaxCPU == 0 {
		return
	}
	now := cpuTime()
	g.credit = g.worth(startTime) - (now - g.used)
	g.at, g.used, g.loan = time.Now(), now, time.Now().Add(loanTime)
	g.findClocks()
}

// worth returns the CPU time that may be used in a time.
func (g *governor) worth(d time.Duration) time.Duration {
	return time.Duration(g.opts.MaxCPU * float64(d))
}

// check measures the CPU time, at most once in measureTime, and changes how many samples are taken.
func (g *governor) check() turn {
	now := time.Now()
	if g.opts.MaxCPU == 0 || now.Sub(g.at) < measureTime {
		return goOn
	}
	used, most := cpuTime(), max(g.credit, g.worth(creditTime))
	earned := g.worth(now.Sub(g.at))
	if now.Before(g.loan) {
		earned -= earned / (loanTime / startTime)
	}
	saved := earned - (used - g.used)
	g.credit = max(min(g.credit+saved, most), -g.worth(longestDebt))
	g.at, g.used = now, used
	enough, over := g.affords(), g.credit < 0 && saved < 0
	switch {
	case g.paused && enough:
		g.report(fmt.Sprintf("recording again after %.0f s", now.Sub(g.raised).Seconds()))
		g.paused, g.raised, g.before = false, now, g.credit
		return resume
	case g.paused:
	case over && g.level < maxLevel:
		g.change(g.level+1, now)
	case over && now.Sub(g.raised) >= pauseTime:
		g.report(fmt.Sprintf("recording nothing for a while: the recorder used more than %.3g%% of a CPU",
			100*g.opts.MaxCPU))
		g.paused, g.raised = true, now
		return pause
	case over:
	case g.level > 0 && now.Sub(g.raised) >= lowerTime && (enough || g.saving(now)):
		g.change(g.level-1, now)
	}
	return goOn
}

// saving reports whether the recorder has used less than half of its share since the level changed last.
func (g *governor) saving(now time.Time) bool {
	return g.credit-g.before > g.worth(now.Sub(g.raised))/2
}

// affords reports whether there is time to build unwind tables. They end before samples are left out.
func (g *governor) affords() bool { return g.credit > g.worth(creditTime)/2 }

// affordsTable is affords, for a table that a stack needs. It reports once that there is no time.
func (g *governor) affordsTable() bool {
	if g.affords() {
		return true
	}
	if !g.postponed {
		g.postponed = true
		g.opts.notice(&ThrottledError{
			"stacks through new programs follow frame pointers until there is CPU time for their unwind tables"})
	}
	return false
}

// change sets the level.
func (g *governor) change(level int, now time.Time) {
	g.level, g.raised, g.before = level, now, g.credit
	g.apply()
	if level == 0 {
		g.report("taking all samples again")
		return
	}
	g.report(fmt.Sprintf("taking 1 of %d samples, 1 of %d of tracepoints: the recorder used more than %.3g%% of a CPU",
		1<<level, 1<<(3*level), 100*g.opts.MaxCPU))
}

// apply sets the frequencies and periods of all counters, also after a CPU came online. The kernel has no counters of
// CPUs that are offline.
func (g *governor) apply() {
	if g.level == 0 && g.raised.IsZero() {
		return
	}
	for i := range g.set.Counters {
		c := &g.set.Counters[i]
		if a := &g.set.Attrs[c.Event]; a.SamplePeriod != 0 && !g.set.Events[c.Event].IsDummy() {
			c.SetPeriod(fewer(a, g.level))
		}
	}
}

// weighing returns a function that corrects the periods of clocks' samples before it passes them to write: the kernel
// reports the period of the first frequency. A record may be in two pieces, except for its header.
func (g *governor) weighing(write func([]byte) error) func([]byte) error {
	if g.level == 0 {
		return write
	}
	rest := 0 // of a record whose first piece is written
	return func(b []byte) error {
		g.buf = append(g.buf[:0], b...)
		rest = g.weigh(g.buf, rest)
		return write(g.buf)
	}
}

// weigh corrects the periods of the records after the first skip bytes. It returns how many bytes the last record
// lacks.
func (g *governor) weigh(b []byte, skip int) (rest int) {
	le := binary.LittleEndian
	pos := skip
	for pos+format.HeaderSize <= len(b) {
		size := int(le.Uint16(b[pos+6:]))
		if size < format.HeaderSize {
			return 0 // not a record: the file's reader reports it
		}
		if format.Type(le.Uint32(b[pos:])) == format.TypeSample && pos+size <= len(b) {
			g.weighSample(b[pos+format.HeaderSize : pos+size])
		}
		pos += size
	}
	return max(0, pos-len(b))
}

func (g *governor) weighSample(body []byte) {
	le := binary.LittleEndian
	if l := &g.layout; l.ID >= 0 && l.ID+8 <= len(body) {
		c, ok := g.clocks[le.Uint64(body[l.ID:])]
		if ok && c.period >= 0 && c.period+8 <= len(body) {
			le.PutUint64(body[c.period:], fewer(c.attr, g.level))
		}
	}
}

// clock is an event that samples by time.
type clock struct {
	attr   *format.Attr
	period int // offset in samples, -1 without
}

// findClocks finds the clocks, and where their samples have their period.
func (g *governor) findClocks() {
	g.clocks, g.layout = map[uint64]clock{}, format.NewSampleLayout(&g.set.Attrs[0])
	for i := range g.set.Attrs {
		if a := &g.set.Attrs[i]; a.IsClock() {
			for _, id := range a.IDs {
				g.clocks[id] = clock{a, format.NewSampleLayout(a).Period}
			}
		}
	}
}

// report makes a notice, at most one in warnTime.
func (g *governor) report(msg string) {
	if now := time.Now(); now.Sub(g.warned) >= warnTime {
		g.warned = now
		g.opts.notice(&ThrottledError{msg})
		return
	}
	g.opts.verbose(msg)
}

// ThrottledError is a notice: samples are left out, or unwind tables postponed, to keep to MaxCPU.
type ThrottledError struct{ What string }

func (e *ThrottledError) Error() string { return "--max-cpu: " + e.What }

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
