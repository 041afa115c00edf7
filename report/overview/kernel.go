package overview

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"gperf/format/fields"
	"gperf/internal/quantile"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// calls are the waits of at least slowCall in system calls, by name, with the waits for a CPU that follow.
type calls struct {
	byName map[string][]wait
	slept  map[int32]wait // the last wait by TID
	end    session.EndOfWaits
}

// wait is a wait of a process, in ns.
type wait struct {
	process, kind  string
	time, duration uint64
	pid            int32
}

func newCalls() collector { return &calls{byName: map[string][]wait{}, slept: map[int32]wait{}} }

// waiting are system calls that take long because they wait for what may come.
var waiting = []string{"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "futex",
	"futex_waitv", "nanosleep", "clock_nanosleep", "wait4", "waitid", "pause", "rt_sigtimedwait", "rt_sigsuspend",
	"accept", "accept4", "io_getevents", "io_pgetevents", "io_uring_enter", "restart_syscall", "read", "recvfrom",
	"recvmsg", "semop", "semtimedop", "msgrcv", "vfork", "clone", "clone3", "ioctl", "exit_group"}

func (c *calls) add(_ *reader, s *session.Sample) {
	c.end.Add(s)
	name := syscallOf(s)
	if name == "" || slices.Contains(waiting, name) {
		return
	}
	w := wait{process(s), kindOf(s), s.Time, s.Period, s.PID}
	if s.Runnable() {
		before := c.slept[s.TID]
		preempted := before.time+switching < s.Time-min(s.Period, s.Time)
		if preempted || before.duration >= slowCall { // which is counted
			return
		}
		w.kind, w.duration = before.kind, w.duration+before.duration
	} else {
		c.slept[s.TID] = w
	}
	if w.duration >= slowCall {
		c.byName[name] = append(c.byName[name], w)
	}
}

// switching is how long after a wait, in ns, the wait for a CPU may begin.
const switching = 100_000

// syscallOf returns the name of the system call in which a thread waits, "" if it is not known.
func syscallOf(s *session.Sample) string {
	for _, f := range s.Kernel.All() {
		for _, prefix := range syscallPrefixes {
			if name, is := strings.CutPrefix(f.Symbol(), prefix); is {
				return name
			}
		}
	}
	return ""
}

// syscallPrefixes are the beginnings of the names of functions that handle system calls, of all systems, x86-64, arm64,
// and 32-bit programs.
var syscallPrefixes = []string{"ksys_", "__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__ia32_compat_sys_"}

func (c *calls) sections(*Overview) []Section {
	section, longest := Section{Name: "syscalls"}, map[string]wait{}
	for name, l := range c.byName {
		l = slices.DeleteFunc(l, func(w wait) bool { return c.end.Has(w.time) })
		if c.byName[name] = l; len(l) > 0 {
			longest[name] = slices.MaxFunc(l, func(a, b wait) int { return cmp.Compare(a.duration, b.duration) })
		}
	}
	for _, name := range sorted(longest, func(w wait) uint64 { return w.duration }) {
		w := longest[name]
		section.Items = append(section.Items, Item{Value: text.Duration(w.duration), Who: w.process,
			What: fmt.Sprintf("%s, %d longer than %s", name, len(c.byName[name]), text.Duration(slowCall)),
			More: []string{"report", "--kind", w.kind, "--pid", strconv.Itoa(int(w.pid))}})
	}
	return []Section{section}
}

// slowCall is the duration of a wait in a system call that is worth a line, in ns.
const slowCall = 5_000_000

// count returns a number of times.
func count(n uint64) string {
	switch {
	case n >= 10e6:
		return fmt.Sprintf("%d M", n/1e6)
	case n >= 10e3:
		return fmt.Sprintf("%d k", n/1e3)
	}
	return fmt.Sprint(n)
}

// failures counts system calls that fail.
type failures struct {
	name   string // of the section
	least  uint64 // failures that are worth a line
	byKind map[failure]uint64
}

// failure is a system call of a process, with the error.
type failure struct{ process, syscall, errno string }

func newFailures(name string, least uint64) collector {
	return &failures{name, least, map[failure]uint64{}}
}

func (c *failures) add(r *reader, s *session.Sample) {
	c.byKind[failure{process(s), r.text(s, key.Syscall), fields.ErrorName(r.value(s, "ret").Number)}] += s.Period
}

func (c *failures) sections(*Overview) []Section {
	section := Section{Name: c.name}
	for _, f := range sorted(c.byKind, func(n uint64) uint64 { return n }) {
		if n := c.byKind[f]; n >= c.least {
			section.Items = append(section.Items, Item{Value: count(n), Who: f.process,
				What: f.syscall + ": " + f.errno,
				More: []string{"script", "--filter", "errno==" + f.errno}})
		}
	}
	return []Section{section}
}

// disk counts requests of block devices.
type disk struct {
	devices map[string]*quantile.Durations
	totals  sums
	who     map[string]sums // bytes by device and process
}

func newDisk() collector {
	return &disk{map[string]*quantile.Durations{}, sums{}, map[string]sums{}}
}

const issueName = "block:block_rq_issue"

func (c *disk) add(r *reader, s *session.Sample) {
	const minorBits = 20 // include/linux/kdev_t.h
	dev := r.number(s, "dev")
	name := fmt.Sprintf("%d:%d", dev>>minorBits, dev&(1<<minorBits-1))
	if r.session.File.EventName(s.Event) == issueName {
		addTo(c.who, name, process(s), r.number(s, "bytes"))
		return
	}
	at(c.devices, name).Add(r.number(s, "max"), r.number(s, "count"))
	c.totals[name] += r.number(s, "total")
}

func (c *disk) sections(*Overview) []Section {
	section := Section{Name: "disk"}
	for _, name := range c.totals.top(2) {
		d := c.devices[name]
		what := fmt.Sprintf("p99 of %s, max %s, device %s", count(d.N()), text.Duration(d.Longest()), name)
		section.Items = append(section.Items, Item{Value: text.Duration(d.Percentile(99)), Who: c.who[name].first(),
			What: what,
			More: []string{"report", "--latency-hist"}})
	}
	return []Section{section}
}

// reclaim sums the time in which processes free memory for themselves, by the event's name.
type reclaim struct {
	times  map[string]sums // ns
	number map[string]sums
}

func newReclaim() collector { return &reclaim{map[string]sums{}, map[string]sums{}} }

func (c *reclaim) add(r *reader, s *session.Sample) {
	why, name := r.session.File.EventName(s.Event), process(s)
	addTo(c.times, why, name, r.number(s, "total"))
	addTo(c.number, why, name, r.number(s, "count"))
}

func (c *reclaim) sections(*Overview) []Section {
	section := Section{Name: "memory"}
	for _, kind := range []struct{ event, why string }{
		{reclaimName, "too little is free"},
		{groupReclaimName, "cgroup is full"},
	} {
		for _, name := range c.times[kind.event].top(2) {
			section.Items = append(section.Items, Item{Value: text.Duration(c.times[kind.event][name]), Who: name,
				What: kind.why + ": frees memory " + count(c.number[kind.event][name]) + " times",
				More: []string{"report", "--latency-hist"}})
		}
	}
	return []Section{section}
}

// drops counts dropped packets by reason.
type drops struct {
	reasons sums
	flows   map[string]sums // by reason
}

func newDrops() collector { return &drops{reasons: sums{}, flows: map[string]sums{}} }

func (c *drops) add(r *reader, s *session.Sample) {
	reason := r.text(s, "reason")
	c.reasons[reason]++
	if flow := r.text(s, "flow"); flow != "unknown" {
		addTo(c.flows, reason, flow, 1)
	}
}

func (c *drops) sections(*Overview) []Section {
	section := Section{Name: "drops"}
	for _, reason := range c.reasons.top(3) {
		section.Items = append(section.Items, Item{Value: count(c.reasons[reason]), Who: reason,
			What: c.flows[reason].first(),
			More: []string{"script", "--filter", "reason==" + reason}})
	}
	return []Section{section}
}

// segmentEvents are events of TCP and sockets that are recorded besides drops.
var segmentEvents = []string{"tcp:tcp_retransmit_skb", "tcp:tcp_retransmit_synack", "tcp:tcp_send_reset",
	"tcp:tcp_receive_reset", "tcp:tcp_bad_csum", "sock:sock_rcvqueue_full", "sock:sock_exceed_buf_limit",
	"udp:udp_fail_queue_rcv_skb", "net:net_dev_xmit_timeout"}

// segments counts events of TCP and sockets.
type segments struct {
	events sums
	ends   map[string]sums // by event
}

func newSegments() collector { return &segments{sums{}, map[string]sums{}} }

func (c *segments) add(r *reader, s *session.Sample) {
	name := r.session.File.EventName(s.Event)
	c.events[name]++
	end := r.text(s, "flow")
	if end == "" && r.text(s, "dport") != "" {
		end = r.text(s, "sport") + " > " + r.text(s, "daddr") + ":" + r.text(s, "dport")
	}
	addTo(c.ends, name, end, 1)
}

func (c *segments) sections(*Overview) []Section {
	section := Section{Name: "network"}
	for _, name := range c.events.top(3) {
		section.Items = append(section.Items, Item{Value: count(c.events[name]), Who: path.Base(name),
			What: c.ends[name].first(),
			More: []string{"script", "--filter", "event==" + name}})
	}
	return []Section{section}
}

const (
	faultsName      = "page-faults"
	majorFaultsName = "major-faults"
)

// faults counts page faults by process.
type faults struct{ minor, major map[string]*faulting }

// faulting is the page faults of a process.
type faulting struct {
	pages uint64
	tasks tasks
}

func newFaults() collector { return &faults{map[string]*faulting{}, map[string]*faulting{}} }

func (c *faults) add(r *reader, s *session.Sample) {
	by := c.minor
	if r.session.File.EventName(s.Event) == majorFaultsName {
		by = c.major
	}
	one := at(by, process(s))
	one.pages += s.Period
	one.tasks.add(s)
}

func (c *faults) sections(o *Overview) []Section {
	section := Section{Name: "faults"}
	for _, kind := range []struct {
		of    map[string]*faulting
		what  string
		least float64 // in a second
	}{{c.major, "pages read from disk", 2}, {c.minor, "new pages of memory", 2000}} {
		for _, name := range sorted(kind.of, func(f *faulting) uint64 { return f.pages }) {
			if one := kind.of[name]; float64(one.pages) >= kind.least*o.Duration.Seconds() {
				section.Items = append(section.Items, Item{Value: count(one.pages), Who: name, What: kind.what,
					More: append([]string{"report"}, one.tasks.flags()...)})
			}
		}
	}
	return []Section{section}
}

const execName = "exec"

// programs counts programs that were started.
type programs struct{ files sums }

func newPrograms() collector { return &programs{sums{}} }

func (c *programs) add(r *reader, s *session.Sample) { c.files[r.text(s, "filename")]++ }

func (c *programs) sections(*Overview) []Section {
	section := Section{Name: "programs"}
	if all := c.files.all(); all > 0 {
		first := c.files.first()
		section.Items = []Item{{Value: count(all), Who: path.Base(first),
			What: fmt.Sprintf("started; %s times %s", count(c.files[first]), first),
			More: []string{"script", "--filter", "event==" + execName}}}
	}
	return []Section{section}
}
