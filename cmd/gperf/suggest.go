package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gperf/internal/suggest"
)

// suggestion returns the end of a message about an unknown name: similar known names, or
// if there are none, allAre ("the fields are") and all known names.
func suggestion(name string, known []string, allAre string) string {
	if l := suggest.Names(name, known); len(l) > 0 {
		return suggest.DidYouMean(l[:min(len(l), 3)])
	}
	return ": " + allAre + " " + strings.Join(known, ", ")
}

// otherCommands lists commands that gperf does not have, most of them perf's, and their
// replacement. Each perf command here reads gperf's files.
var otherCommands = []struct{ name, way string }{
	{"bench", "perf bench measures this machine"},
	{"buildid-cache", "`gperf cache` shows and clears gperf's cache"},
	{"c2c",
		"`gperf report --mem-mode` reads the recordings of `perf c2c record`, which requires a PMU that " +
			"samples memory accesses"},
	{"check", "`gperf doctor` prints what this machine can record"},
	{"config", "gperf has no configuration file, only flags"},
	{"daemon", "`gperf record --overwrite --switch-output=signal -a` writes the last samples at each SIGUSR2"},
	{"data",
		"`gperf report --format json` (or perfetto, firefox, parquet) converts; so does `perf data " +
			"convert`, which reads gperf's files"},
	{"dropwatch", "`gperf top --stdio -e skb:kfree_skb` prints where packets are dropped, each second"},
	{"flamegraph", "`gperf report --format flamegraph -o flame.html` makes one of perf.data"},
	{"folded", "`gperf report --format folded` prints folded stacks of perf.data"},
	{"ftrace",
		"`gperf record -e span:FUNCTION COMMAND` records calls with their durations, `gperf script --tree` nests " +
			"them; kprobe:FUNCTION with -g records their stacks"},
	{"inject", "`perf inject -i perf.data -o out.data` reads gperf's files, and gperf reads its output"},
	{"iostat",
		"`gperf record -a -e 'span:block:block_rq_issue..block:block_rq_complete/key=dev,sector/'` " +
			"records the time of each request"},
	{"kallsyms", "`gperf list 'kprobe:NAME*'` lists functions of the kernel"},
	{"kmem",
		"`gperf record -a -g -e kmem:kmalloc`, then `gperf report --weight bytes_alloc`, shows who " +
			"allocates how much; `perf kmem stat` reads gperf's files, too"},
	{"kvm", "`gperf record -a`, then `gperf report --guest`; `perf kvm report` reads gperf's files, too"},
	{"kwork",
		"`gperf record -a -e span:irq:softirq_entry..irq:softirq_exit/key=vec/` records the time of each softirq; " +
			"`perf kwork` reads recordings of irq:* and workqueue:*"},
	{"lock",
		"`gperf record --off-cpu --waker -g -p PID` records where threads wait, for how long, and who wakes them; " +
			"`perf lock contention` reads recordings of lock:contention_*"},
	{"mem",
		"`gperf report --mem-mode` reads the recordings of `perf mem record`, which requires a PMU that " +
			"samples memory accesses"},
	{"pprof", "`gperf report --format pprof -o perf.pb.gz` writes a profile for go tool pprof"},
	{"sched",
		"`gperf record -a --off-cpu --waker -g` records each wait with its duration, its stack and who ended it; " +
			"`perf sched timehist` reads recordings of sched:*"},
	{"stat",
		"`gperf record --count -e EVENTS COMMAND` counts events in the kernel, " +
			"by thread and with -g by stack; `gperf report` shows the counts"},
	{"test", "perf test tests perf"},
	{"timechart",
		"`gperf report --format perfetto -o trace.pb` writes a timeline for ui.perfetto.dev; " +
			"`perf timechart` reads recordings of sched:* and power:*"},
	{"trace",
		"`gperf record -e span:syscalls COMMAND`, then `gperf script`: each system call with its arguments, " +
			"result and duration; `gperf report` sums them up"},
}

// unknown reports an unknown command, and suggests a replacement or similar commands.
func unknown(root *cobra.Command, name string, stderr io.Writer) int {
	for _, other := range otherCommands {
		if other.name == name {
			fmt.Fprintf(stderr, "gperf: there is no command %s: %s\n", name, other.way)
			return exitUsage
		}
	}
	fmt.Fprintf(stderr, "gperf: %q is not a command of gperf", name)
	if strings.HasPrefix(name, "-") {
		fmt.Fprint(stderr, ": flags follow the command")
	} else if find(root, name) != nil {
		fmt.Fprintf(stderr, " but a help topic: gperf help %s", name)
	} else if l := likeCommand(root, name); len(l) > 0 {
		fmt.Fprintf(stderr, ": did you mean %s?", strings.Join(l, " or "))
	}
	fmt.Fprintln(stderr, "\n`gperf --help` lists them.")
	return exitUsage
}

// likeCommand returns the commands that the name abbreviates, or else similar ones.
func likeCommand(root *cobra.Command, name string) (like []string) {
	var names []string
	for _, c := range root.Commands() {
		if c.Runnable() {
			names = append(names, c.Name())
		}
	}
	for _, n := range names {
		if strings.HasPrefix(n, name) || strings.HasPrefix(name, n) {
			like = append(like, n)
		}
	}
	if len(like) > 0 {
		return like
	}
	l := suggest.Names(name, names)
	return l[:min(len(l), 2)]
}
