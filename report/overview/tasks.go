package overview

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"gperf/internal/session"
	"gperf/internal/text"
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
	tasks           tasks
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
	p.tasks.add(s)
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
			More: append([]string{"report"}, u.tasks.flags()...)}
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

// tasks counts the samples of the processes and threads of a name.
type tasks struct {
	pids  map[int32]uint64
	comms sums // of threads
}

func (t *tasks) add(s *session.Sample) {
	if t.pids == nil {
		t.pids, t.comms = map[int32]uint64{}, sums{}
	}
	t.pids[s.PID]++
	t.comms[s.Comm]++
}

// flags returns the flags that select the tasks: the numbers of processes, whose threads may have other names, if few
// have most samples; else the most frequent name of a thread.
func (t *tasks) flags() []string {
	const few = 3
	all, of := t.comms.all(), uint64(0)
	var list []string
	for _, pid := range sorted(t.pids, func(n uint64) uint64 { return n })[:min(few, len(t.pids))] {
		list = append(list, strconv.Itoa(int(pid)))
		if of += t.pids[pid]; pid > 0 && of*10 >= all*9 {
			return []string{"--pid", strings.Join(list, ",")}
		}
	}
	return []string{"-c", t.comms.first()}
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
	tasks             map[string]*tasks
}

func newWaits() collector { return &waits{byKind: map[string]*sum{}} }

func (c *waits) add(_ *reader, s *session.Sample) {
	kind := kindOf(s)
	k := at(c.byKind, kind)
	if k.processes == nil {
		*k = sum{processes: sums{}, functions: map[string]sums{}, wakers: map[string]sums{},
			tasks: map[string]*tasks{}}
	}
	name := process(s)
	k.total += s.Period
	k.processes[name] += s.Period
	at(k.tasks, name).add(s)
	addTo(k.functions, name, s.WaitsIn(), s.Period)
	if s.Waker != nil && s.Waker.TID != 0 { // else an interrupt
		addTo(k.wakers, name, s.Waker.Text(), s.Period)
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

// ordinary are the kinds of waits that programs mostly want: they come last.
var ordinary = map[string]bool{"timer": true, "child": true, "poll": true, "stopped": true, "other": true}

func (c *waits) sections(o *Overview) []Section {
	section := Section{Name: "waits"}
	kinds := sorted(c.byKind, func(s *sum) uint64 { return s.total })
	for _, last := range []bool{false, true} {
		for _, kind := range kinds {
			if ordinary[kind] == last && kind != session.RunQueue {
				section.Items = append(section.Items, c.items(o, kind)...)
			}
		}
	}
	runnable := c.items(o, session.RunQueue)
	for i := range runnable {
		runnable[i].What = "" // the section says it
	}
	return []Section{{Name: "run queue", Items: runnable}, section}
}

// items returns the processes that waited longest for something, if it is worth a line.
func (c *waits) items(o *Overview, kind string) (list []Item) {
	k := c.byKind[kind]
	if k == nil || k.total < uint64(o.Duration)/200 {
		return nil
	}
	for _, name := range k.processes.top(3) {
		if k.processes[name] < uint64(o.Duration)/200 {
			break
		}
		list = append(list, Item{Value: text.Duration(k.processes[name]), Who: name,
			What: kind, Function: k.functions[name].first(), By: k.wakers[name].first(),
			More: append([]string{"report", "--kind", kind}, k.tasks[name].flags()...)})
	}
	return list
}
