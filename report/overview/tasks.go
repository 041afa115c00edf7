package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gperf/internal/quantile"
	"gperf/internal/session"
)

// cpu sums the time of CPUs by process.
type cpu struct {
	processes map[string]*used
	total     uint64
}

// used is the time of a process, in ns.
type used struct {
	all, collecting uint64 // collecting: of a garbage collector
	functions       sums
	pids            pids
}

func newCPU() collector { return &cpu{processes: map[string]*used{}} }

func (c *cpu) add(r *reader, s *session.Sample) {
	if r.session.Idle(s) {
		return
	}
	p := at(c.processes, process(s))
	if p.functions == nil {
		p.functions = sums{}
	}
	p.all += s.Period
	p.pids.add(s)
	c.total += s.Period
	if f := runs(s); f != nil {
		p.functions[f.Symbol()] += s.Period
	}
	if collects(s) {
		p.collecting += s.Period
	}
}

// runs returns the function that a sample shows: the innermost one of a runtime such as Python, if there is one.
func runs(s *session.Sample) *session.Frame {
	for _, f := range s.User.All() {
		if f.Kind() == session.KindRuntime {
			return f
		}
	}
	return s.Leaf
}

// collectors are functions of garbage collectors. They begin with one of these names.
var collectors = []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge",
	"v8::internal::Heap::CollectGarbage", "v8::internal::ScavengerCollector", "v8::internal::MarkCompactCollector",
	"v8::internal::ConcurrentMarking", "v8::internal::Sweeper", "gc_collect_main", "gc_collect_region", "_PyGC_Collect",
	"gc_marks", "gc_sweep", "zend_gc_collect_cycles"}

// collectorThreads are threads of the collectors of Java. Their names begin so.
var collectorThreads = []string{"GC Thread", "G1 ", "ZGC", "ZWorker", "Shenandoah", "CMS Main", "Concurrent Mark"}

// collects reports whether a sample is of a garbage collector.
func collects(s *session.Sample) bool {
	for _, name := range collectorThreads {
		if strings.HasPrefix(s.Comm, name) {
			return true
		}
	}
	for _, f := range s.User.All() {
		name := f.Symbol()
		for _, c := range collectors {
			if strings.HasPrefix(name, c) {
				return true
			}
		}
	}
	return false
}

func (c *cpu) sections(o *Overview) []Section {
	section := Section{Name: "CPU"}
	if o.Duration == 0 {
		return nil
	}
	percent := func(ns uint64) float64 { return 100 * float64(ns) / float64(o.Duration) }
	for _, name := range sorted(c.processes, func(u *used) uint64 { return u.all }) {
		u := c.processes[name]
		if percent(u.all) < leastPercent {
			break
		}
		item := Item{Value: fmt.Sprintf("%.1f %%", percent(u.all)), Who: name, Function: u.functions.first(),
			More: append([]string{"report"}, u.pids.flags(name)...)}
		section.Items = append(section.Items, item)
		if percent(u.collecting) >= leastPercent && u.collecting*10 > u.all {
			item.Value = fmt.Sprintf("%.1f %%", percent(u.collecting))
			item.What, item.Function = "garbage collection", ""
			section.Items = append(section.Items, item)
		}
	}
	return []Section{section}
}

// leastPercent is the share of a CPU that is worth a line.
const leastPercent = 0.5

// pids are the processes of a name: the samples of each.
type pids map[int32]uint64

func (p *pids) add(s *session.Sample) {
	if *p == nil {
		*p = pids{}
	}
	(*p)[s.PID]++
}

// flags returns the flags that select the processes of a name: by number if most samples are of one process, whose
// threads may have other names.
func (p pids) flags(name string) []string {
	most, all, pid := uint64(0), uint64(0), int32(0)
	for one, n := range p {
		all += n
		if n > most {
			most, pid = n, one
		}
	}
	if pid > 0 && most*10 >= all*9 {
		return []string{"--pid", strconv.Itoa(int(pid))}
	}
	return []string{"-c", name}
}

// runQueue sums the time for which threads that could run waited for a CPU.
type runQueue struct {
	processes map[string]*quantile.Durations
	totals    sums
}

func newRunQueue() collector {
	return &runQueue{map[string]*quantile.Durations{}, sums{}}
}

func (c *runQueue) add(r *reader, s *session.Sample) {
	name := r.names[int32(r.number(s, "pid"))]
	if name == "" {
		return // a thread of the kernel, or one that did nothing else
	}
	at(c.processes, name).Add(r.number(s, "max"), r.number(s, "count"))
	c.totals[name] += r.number(s, "total")
}

func (c *runQueue) sections(o *Overview) []Section {
	section := Section{Name: "run queue"}
	for _, name := range c.totals.top(4) {
		d := c.processes[name]
		if c.totals[name] < uint64(o.Duration)/200 && d.Longest() < 20e6 {
			continue
		}
		section.Items = append(section.Items, Item{Value: seconds(c.totals[name]), Who: name,
			What: fmt.Sprintf("max %s, p99 %s: waits for a CPU", seconds(d.Longest()), seconds(d.Percentile(99))),
			More: []string{"report", "--latency-hist"}})
	}
	return []Section{section}
}

// seconds returns a time of 3 digits with its unit.
func seconds(ns uint64) string {
	d := time.Duration(ns)
	for _, u := range [...]struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if v := float64(d) / float64(u.size); d >= u.size {
			digits := 2
			if v >= 100 {
				digits = 0
			} else if v >= 10 {
				digits = 1
			}
			return fmt.Sprintf("%.*f %s", digits, v, u.name)
		}
	}
	return fmt.Sprintf("%d ns", ns)
}

// waits sums the time of waits by kind and process.
type waits struct {
	byKind map[string]*sum
}

// sum is the time of waits, in ns.
type sum struct {
	total             uint64
	processes         sums
	functions, wakers map[string]sums // by process
	pids              map[string]*pids
}

func newWaits() collector { return &waits{byKind: map[string]*sum{}} }

func (c *waits) add(_ *reader, s *session.Sample) {
	kind := kindOf(s)
	k := at(c.byKind, kind)
	if k.processes == nil {
		*k = sum{processes: sums{}, functions: map[string]sums{}, wakers: map[string]sums{},
			pids: map[string]*pids{}}
	}
	name := process(s)
	k.total += s.Period
	k.processes[name] += s.Period
	at(k.pids, name).add(s)
	addTo(k.functions, name, waitsIn(s), s.Period)
	if s.Waker != nil && s.Waker.TID != 0 { // else an interrupt
		addTo(k.wakers, name, s.Waker.Comm, s.Period)
	}
}

// kindOf returns the kind of a wait.
func kindOf(s *session.Sample) string { return cmp.Or(s.WaitKind(), "other") }

func addTo(m map[string]sums, name, of string, n uint64) {
	if m[name] == nil {
		m[name] = sums{}
	}
	m[name][of] += n
}

// libraries are what programs wait in, and do not say what for: functions whose names begin so.
var libraries = []string{"runtime.", "internal/runtime/", "syscall.", "internal/syscall/", "internal/poll.",
	"golang.org/x/sys/unix.", "os.(*", "std::", "[unknown]"}

// waitsIn returns the innermost function of a wait that is neither the kernel's nor a language's.
func waitsIn(s *session.Sample) string {
	innermost := ""
	for _, f := range s.User.All() {
		name := f.Symbol()
		innermost = cmp.Or(innermost, name)
		if name != "" && !strings.Contains(f.DSO(), "/libc.so") &&
			!slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(name, l) }) {
			return name
		}
	}
	if innermost == "" && s.Leaf != nil {
		return s.Leaf.Symbol()
	}
	return innermost
}

// ordinary are the kinds of waits that programs mostly want: they come last.
var ordinary = map[string]bool{"timer": true, "child": true, "poll": true, "stopped": true, "other": true}

func (c *waits) sections(o *Overview) []Section {
	section := Section{Name: "waits"}
	kinds := sorted(c.byKind, func(s *sum) uint64 { return s.total })
	for _, last := range []bool{false, true} {
		for _, kind := range kinds {
			k := c.byKind[kind]
			if ordinary[kind] != last || k.total < uint64(o.Duration)/200 {
				continue
			}
			for _, name := range k.processes.top(3) {
				if k.processes[name] < uint64(o.Duration)/200 {
					break
				}
				section.Items = append(section.Items, Item{Value: seconds(k.processes[name]), Who: name, What: kind,
					Function: k.functions[name].first(), By: k.wakers[name].first(),
					More: append([]string{"report", "--kind", kind}, k.pids[name].flags(name)...)})
			}
		}
	}
	return []Section{section}
}
