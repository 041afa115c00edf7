package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A step is one command of a way.
type step struct {
	name  string
	tool  tool
	args  []string
	marks bool // it records a command that writes the time at which it runs
}

// A way is the sequence of steps to attach, record and remove probes of many kernel functions.
type way struct {
	what  string
	steps []step
}

// globs name the functions if a tool finds them itself.
var globs = []string{"tcp_*", "udp_*", "inet_*", "ip_*", "skb_*", "sock_*"}

// probeWays are the ways of all tools, to record functions by name and by globs.
func (b probePart) probeWays(functions, mark []string) (ways []way) {
	file := filepath.Join(b.dir, "probes.data")
	record := func(names []string, with string) []step {
		var events []string
		for _, f := range names {
			events = append(events, "kprobe:"+f+with)
		}
		return []step{{"record", b.gperf,
			slices.Concat([]string{"record", "-a", "-q", "-o", file, "-e", strings.Join(events, ","), "--"}, mark),
			true}}
	}
	ways = append(ways, way{"names", record(functions, "")})
	const group = "gperf_bench"
	for _, p := range b.perfs {
		var steps []step
		for some := range slices.Chunk(functions, 125) { // it takes 128 at most
			add := []string{"probe", "-q"}
			for _, f := range some {
				add = append(add, "--add", fmt.Sprintf("%s:%s=%s", group, f, f))
			}
			steps = append(steps, step{"probe --add", p, add, false})
		}
		ways = append(ways, way{"names", append(steps,
			step{"record", p, slices.Concat([]string{"record", "-a", "-q", "-N", "-B", "-o", file, "-e", group + ":*",
				"--"}, mark), true},
			step{"probe --del", p, []string{"probe", "-q", "--del", group + ":*"}, false})})
	}
	bpftrace, err := exec.LookPath("bpftrace")
	by := func(what string, names []string) {
		if err == nil {
			program := "kprobe:" + strings.Join(names, ",kprobe:") + " { @ = count(); }"
			ways = append(ways, way{what, []step{{"-e", tool{"bpftrace", []string{bpftrace}},
				[]string{"-c", strings.Join(mark, " "), "-e", program}, true}}})
		}
	}
	by("names", functions)
	ways = append(ways, way{"globs", record(globs, "")})
	by("globs", globs)
	ways = append(ways, way{"names, an argument each", record(functions, " a=%di")})
	return ways
}

// makeMark returns a command that writes the time at which it runs, and a function that reads this time.
func (b probePart) makeMark() (mark []string, marked func() (time.Time, error), err error) {
	script, at := filepath.Join(b.dir, "mark"), filepath.Join(b.dir, "marked")
	err = os.WriteFile(script, []byte("exec date +%s.%N >"+at+"\n"), 0o666)
	return []string{"/bin/sh", script}, func() (time.Time, error) {
		text, err := os.ReadFile(at)
		var sec, ns int64
		if err == nil {
			_, err = fmt.Sscanf(string(text), "%d.%d", &sec, &ns)
		}
		return time.Unix(sec, ns), err
	}, err
}

// took holds the times of one run: until the command ran, and from then to the end.
type took struct{ attach, detach time.Duration }

// goWay runs all steps of a way once.
func (b probePart) goWay(w way, marked func() (time.Time, error)) (t took, each []time.Duration, err error) {
	recorded := false
	for _, s := range w.steps {
		cmd, stderr := b.command(s.tool, nil, s.args...)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return t, nil, fmt.Errorf("%s %s, %s: %w\n%.1000s", s.tool.name, s.name, w.what, err, stderr)
		}
		d := time.Since(start)
		each = append(each, d)
		switch {
		case s.marks:
			at, err := marked()
			if err != nil {
				return t, nil, err
			}
			t.attach += at.Sub(start)
			t.detach += d - at.Sub(start)
			recorded = true
		case recorded:
			t.detach += d
		default:
			t.attach += d
		}
	}
	return t, each, nil
}

// probes measures the time to attach and to remove many kprobes.
func (b probePart) probes() error {
	functions, globbed, err := plainFunctions(b.probeCount)
	if err != nil {
		return err
	}
	mark, marked, err := b.makeMark()
	if err != nil {
		return err
	}
	os.Setenv("BPFTRACE_MAX_PROBES", fmt.Sprint(2*len(functions)+2*globbed))
	// Bpftrace opens a file for each probe and does not raise the limit of open files. Commands do not inherit the
	// limit that Go raises at the start of this process.
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		files.Cur = files.Max
		unix.Setrlimit(unix.RLIMIT_NOFILE, &files)
	}
	ways := b.probeWays(functions, mark)
	runs := make([][]took, len(ways))
	steps := make([][][]time.Duration, len(ways)) // by way, step, run
	for run := range b.runs {
		for i, w := range ways {
			t, each, err := b.goWay(w, marked)
			if err != nil {
				fmt.Println(err)
				continue
			}
			runs[i] = append(runs[i], t)
			steps[i] = append(steps[i], make([][]time.Duration, len(each)-len(steps[i]))...)
			for n, d := range each {
				steps[i][n] = append(steps[i][n], d)
			}
			fmt.Fprintf(os.Stderr, "run %d of %d: %s, %s: %.2f s and %.2f s\n", run+1, b.runs, w.steps[0].tool.name,
				w.what, t.attach.Seconds(), t.detach.Seconds())
		}
	}
	fmt.Printf("\nkprobes attached and detached, %d by name, or some %d by globs, %d runs each in turns, %s\n",
		len(functions), globbed, b.runs, loadAverage())
	tw := newTable(
		"functions by\ttool\twall s: until it records\tuntil all is gone\tall: min\tmedian\tmax\tits commands, medians")
	for i, w := range ways {
		if len(runs[i]) == 0 {
			fmt.Fprintf(tw, "%s\t%s\tfailed\n", w.what, w.steps[0].tool.name)
			continue
		}
		var attach, detach, all []time.Duration
		for _, t := range runs[i] {
			attach, detach, all = append(attach, t.attach), append(detach, t.detach), append(all, t.attach+t.detach)
		}
		fmt.Fprintf(tw, "%s\t%s\t%.2f\t%.2f\t%s\t", w.what, w.steps[0].tool.name, middle(attach),
			middle(detach), spread(all, 2))
		for n := 0; n < len(w.steps); {
			first, sum := n, 0.0
			for ; n < len(w.steps) && w.steps[n].name == w.steps[first].name; n++ {
				sum += middle(steps[i][n])
			}
			fmt.Fprintf(tw, "%s %.2f  ", w.steps[first].name, sum)
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// middle returns the median in seconds.
func middle(l []time.Duration) float64 { return median(l).Seconds() }

// quiet names functions that are rarely called while no packets are sent.
var quiet = regexp.MustCompile(
	`^(tcp|udp|inet|inet6|ip|ip6|ipv6|icmp|igmp|arp|fib|xfrm|netdev|sock|skb|rtnl|genl|unix|packet|` +
		`raw|ping|ethtool|devlink|bond|vlan|tc|qdisc)_\w+$`)

// plainFunctions returns n kernel functions that can be traced and whose names are unique, and the number of
// functions that match the globs.
func plainFunctions(n int) (names []string, globbed int, err error) {
	text, err := os.ReadFile("/sys/kernel/tracing/available_filter_functions")
	if err != nil {
		return nil, 0, err
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		count[name]++
		if module == "" && quiet.MatchString(name) {
			names = append(names, name)
		}
		if slices.ContainsFunc(globs, func(glob string) bool { ok, _ := path.Match(glob, name); return ok }) {
			globbed++
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return count[name] > 1 })
	if len(names) < n {
		return nil, 0, fmt.Errorf("this kernel has %d functions to probe, not %d", len(names), n)
	}
	return names[:n], globbed, nil
}
