package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A step is one command on the way to a recording of probes.
type step struct {
	name string
	tool tool
	args []string
}

// probeWays are ways to record so many functions of the kernel, from nothing to nothing.
func (b *bench) probeWays(functions []string) (ways [][]step) {
	file := filepath.Join(b.dir, "probes.data")
	record := func(with string) []string {
		var events []string
		for _, f := range functions {
			events = append(events, "kprobe:"+f+with)
		}
		return []string{"record", "-a", "-q", "-o", file, "-e", strings.Join(events, ","), "--", "true"}
	}
	ways = append(ways,
		[]step{{"record", b.gperf, record("")}},
		[]step{{"record, an argument each", b.gperf, record(" a=%di")}})
	const group = "gperf_bench"
	for _, p := range b.perfs {
		add := []string{"probe", "-q"}
		for _, f := range functions {
			add = append(add, "--add", fmt.Sprintf("%s:%s=%s", group, f, f))
		}
		ways = append(ways, []step{
			{"probe --add", p, add},
			{"record", p, []string{"record", "-a", "-q", "-N", "-B", "-o", file, "-e", group + ":*", "--", "true"}},
			{"probe --del", p, []string{"probe", "-q", "--del", group + ":*"}},
		})
	}
	if path, err := exec.LookPath("bpftrace"); err == nil {
		program := "kprobe:" + strings.Join(functions, ",kprobe:") + " { @ = count(); }"
		ways = append(ways, []step{{"-e", tool{"bpftrace", []string{path}}, []string{"-c", "/bin/true", "-e", program}}})
	}
	return ways
}

// probes measures how long it takes to attach many kprobes and to be rid of them.
func (b *bench) probes() error {
	functions, err := plainFunctions(b.probeCount)
	if err != nil {
		return err
	}
	os.Setenv("BPFTRACE_MAX_PROBES", fmt.Sprint(2*len(functions)))
	ways := b.probeWays(functions)
	took := make([][][]time.Duration, len(ways)) // by way, run, step
	for range b.runs {
		for i, way := range ways {
			var times []time.Duration
			for _, s := range way {
				u, err := b.time(s.tool, s.args...)
				if err != nil {
					return fmt.Errorf("%s %s: %w", s.tool.name, s.name, err)
				}
				times = append(times, u.wall)
			}
			took[i] = append(took[i], times)
		}
	}
	fmt.Printf("\n%d kprobes attached and detached, %s\n", len(functions), loadAverage())
	tw := newTable("tool\tstep\twall s: min\tmedian\tmax")
	for i, way := range ways {
		all := make([]time.Duration, b.runs)
		for n, s := range way {
			var times []time.Duration
			for run, t := range took[i] {
				times = append(times, t[n])
				all[run] += t[n]
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\n", s.tool.name, s.name, spread(times))
		}
		if len(way) > 1 {
			fmt.Fprintf(tw, "%s\tall of it\t%s\n", way[0].tool.name, spread(all))
		}
	}
	return tw.Flush()
}

func spread(l []time.Duration) string {
	slices.SortFunc(l, cmp.Compare[time.Duration])
	return fmt.Sprintf("%.2f\t%.2f\t%.2f", l[0].Seconds(), l[len(l)/2].Seconds(), l[len(l)-1].Seconds())
}

// quiet are functions that little calls while nothing is sent.
var quiet = regexp.MustCompile(`^(tcp|udp|inet|inet6|ip|ip6|ipv6|icmp|igmp|arp|fib|xfrm|netdev|sock|skb|rtnl|genl|unix|packet|raw|ping|ethtool|devlink|bond|vlan|tc|qdisc)_\w+$`)

// plainFunctions are n functions of the kernel, each the only one of its name, that can be traced.
func plainFunctions(n int) ([]string, error) {
	text, err := os.ReadFile("/sys/kernel/tracing/available_filter_functions")
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	var names []string
	for line := range strings.Lines(string(text)) {
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		count[name]++
		if module == "" && quiet.MatchString(name) {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return count[name] > 1 })
	if len(names) < n {
		return nil, fmt.Errorf("this kernel has %d functions to probe, not %d", len(names), n)
	}
	return names[:n], nil
}
