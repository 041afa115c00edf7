// Package overview says on one screen what a machine did while it was recorded: what ran, what waited for what, which
// system calls were slow or failed, which packets were lost.
//
// Each kind of event has a collector, which makes a section of the screen. A section is a list of items, the most
// important first, each with the command that shows more.
package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// Overview is what happened in a recording.
type Overview struct {
	Host     string        `json:"host,omitempty"`
	CPUs     int           `json:"cpus"`
	Duration time.Duration `json:"duration"` // ns
	// Busy is the CPU time of processes in ns, and Idle the share of the time of waits that was for work, in percent.
	Busy     uint64    `json:"busy"`
	Idle     float64   `json:"idle"`
	Sections []Section `json:"sections"`
}

// Section is a kind of what happened.
type Section struct {
	Name  string `json:"name"`
	Items []Item `json:"items"`
}

// Item is one thing that happened.
type Item struct {
	// Value is a number with its unit: 61.2 %, 1.23 s, 120.
	Value string `json:"value"`
	Who   string `json:"who,omitempty"` // a command, device or reason
	What  string `json:"what,omitempty"`
	// Function is the hottest function, or the one that waits.
	Function string `json:"function,omitempty"`
	By       string `json:"by,omitempty"` // session.Waker.Text of who ends most of the waits
	// More are the arguments of gperf that show more.
	More []string `json:"more"`
}

// collector counts the samples of events.
type collector interface {
	add(r *reader, s *session.Sample)
	// sections returns what was counted, without items for nothing worth a line.
	sections(o *Overview) []Section
}

// reader reads a recording.
type reader struct {
	session *session.Session
	keys    *key.Keys
	columns [][]key.Column
	values  []key.Value
	read    bool // values are those of the current sample
}

// Read reads a recording, whose session must leave out waits for work.
func Read(s *session.Session) (*Overview, format.Skipped, error) {
	keys, err := key.New(s.File, s.Symbols, key.Options{All: true})
	if err != nil {
		return nil, format.Skipped{}, err
	}
	r := &reader{session: s, keys: keys}
	all := []collector{newCPU(), newWaits(), newCalls(), newFailures("errors", 1),
		newFailures("failing", manyFailed), newDisk(), newReclaim(), newDrops(), newSegments(), newFaults(),
		newPrograms()}
	by := make([][]collector, len(s.File.Attrs))
	for i := range s.File.Attrs {
		r.columns = append(r.columns, keys.Columns(i))
		for _, name := range collectorsOf(s.File, i) {
			by[i] = append(by[i], all[name])
		}
	}
	first, last := ^uint64(0), uint64(0)
	skipped, err := s.Walk(session.WalkOptions{Names: true, KeepChains: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			one := &b.Samples[i]
			first, last = min(first, one.Time), max(last, one.Time)
			r.read = false
			for _, c := range by[one.Event] {
				c.add(r, one)
			}
		}
		b.Release()
		return nil
	})
	if err != nil {
		return nil, skipped, err
	}
	o := &Overview{Host: s.File.String(format.FeatureHostname)}
	if n, ok := s.File.NrCPUs(); ok {
		o.CPUs = int(n.Online)
	}
	if last > first {
		o.Duration = time.Duration(last - first)
	}
	o.Busy = all[ofCPU].(*cpu).total
	if s.Waits.All > 0 {
		o.Idle = 100 * float64(s.Waits.Idle) / float64(s.Waits.All)
	}
	for _, c := range all {
		for _, section := range c.sections(o) {
			if len(section.Items) > 0 {
				o.Sections = append(o.Sections, section)
			}
		}
	}
	return o, skipped, nil
}

// The collectors, in the order of the screen.
const (
	ofCPU = iota
	ofWaits
	ofCalls
	ofErrors
	ofFailing
	ofDisk
	ofReclaim
	ofDrops
	ofSegments
	ofFaults
	ofPrograms
)

// Names of the spans that Events records.
const (
	diskName    = "disk"
	errorsName  = "errors"
	failingName = "failing"

	reclaimName      = "reclaim"        // of memory: too little is free
	groupReclaimName = "cgroup-reclaim" // a cgroup reached its limit
)

// collectorsOf returns the collectors of an event.
func collectorsOf(f *format.File, i int) []int {
	a, t := &f.Attrs[i], f.Tracepoint(i)
	switch name := f.EventName(i); {
	case session.IsThreadWait(a):
		return []int{ofWaits, ofCalls}
	case session.IsWaker(a):
		return nil
	case t == nil && a.IsClock(), t == nil && a.Type == format.TypeHardware:
		return []int{ofCPU}
	case name == faultsName || name == majorFaultsName:
		return []int{ofFaults}
	case t == nil:
		return nil
	case name == diskName:
		return []int{ofDisk}
	case name == reclaimName || name == groupReclaimName:
		return []int{ofReclaim}
	case name == errorsName:
		return []int{ofErrors}
	case name == failingName:
		return []int{ofFailing}
	case name == issueName:
		return []int{ofDisk}
	case t.Field("reason") != nil && t.System == "skb":
		return []int{ofDrops}
	case slices.Contains(segmentEvents, name):
		return []int{ofSegments}
	case name == execName:
		return []int{ofPrograms}
	}
	return nil
}

// value returns a field of the current sample.
func (r *reader) value(s *session.Sample, name string) key.Value {
	if !r.read {
		r.values, r.read = r.keys.Values(r.values[:0], s), true
	}
	for i, c := range r.columns[s.Event] {
		if c.Key == name {
			return r.values[i]
		}
	}
	return key.Value{}
}

func (r *reader) text(s *session.Sample, name string) string { return r.value(s, name).Text }

func (r *reader) number(s *session.Sample, name string) uint64 {
	return uint64(r.value(s, name).Number)
}

// process returns the name of a sample's process.
func process(s *session.Sample) string {
	if s.Thread == nil {
		return s.Comm
	}
	if l := s.Thread.Leader(); l.Named {
		return l.Comm
	}
	return s.Comm
}

// sums are sums by name.
type sums map[string]uint64

// top returns the names with the largest sums, at most n.
func (s sums) top(n int) []string {
	l := session.MostFrequent(s)
	return l[:min(n, len(l))]
}

// first returns the name with the largest sum, "" for none.
func (s sums) first() string {
	if l := s.top(1); len(l) > 0 {
		return l[0]
	}
	return ""
}

// all returns the sum of all.
func (s sums) all() (sum uint64) {
	for _, n := range s {
		sum += n
	}
	return sum
}

// sorted returns the keys of a map by weight, the largest first.
func sorted[K comparable, T any](m map[K]T, weight func(T) uint64) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int {
		return cmp.Or(cmp.Compare(weight(m[b]), weight(m[a])), cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
}

// at returns the value of a name, which it adds if it is new.
func at[K comparable, T any](m map[K]*T, name K) *T {
	v := m[name]
	if v == nil {
		v = new(T)
		m[name] = v
	}
	return v
}
