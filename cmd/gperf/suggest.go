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
		return ": did you mean " + strings.Join(l[:min(len(l), 3)], ", ") + "?"
	}
	return ": " + allAre + " " + strings.Join(known, ", ")
}

// otherCommands lists commands that gperf does not have, most of them perf's, and their
// replacement. Each perf command here reads gperf's files.
var otherCommands = []struct{ name, way string }{
	{"bench", "perf bench measures this machine"},
	{"buildid-cache", "`gperf cache` shows and clears gperf's cache"},
	{"c2c", "record with `perf c2c record` if the PMU samples memory accesses; `gperf report --mem-mode` reads that"},
	{"check", "`gperf doctor` prints what this machine can record"},
	{"config", "gperf has no configuration file, only flags"},
	{"daemon", "`gperf record --overwrite --switch-output=signal -a` writes the last samples at each SIGUSR2"},
	{"data", "`perf data convert --to-json out.json -i perf.data` reads gperf's files"},
	{"dropwatch", "`gperf top --stdio -e skb:kfree_skb` prints where packets are dropped, each second"},
	{"flamegraph", "`gperf report --format flamegraph -o flame.html` makes one of perf.data"},
	{"folded", "`gperf report --format folded` prints folded stacks of perf.data"},
	{"ftrace", "`gperf record -a -g -e kprobe:FUNCTION` records the calls of a function with their stacks"},
	{"inject", "`perf inject -i perf.data -o out.data` reads gperf's files, and gperf reads its output"},
	{"iostat", "perf iostat counts with the PMU; `gperf record -a -e 'block:*'` records each request"},
	{"kallsyms", "`gperf list 'kprobe:NAME*'` lists functions of the kernel"},
	{"kmem", "`gperf record -a -e 'kmem:*'`, then `perf kmem -i perf.data --caller stat`"},
	{"kvm", "`gperf record -a`, then `perf kvm --host -i perf.data report`"},
	{"kwork", "`gperf record -a -e 'irq:softirq_*'`, then `perf kwork report -i perf.data`"},
	{"lock",
		"`gperf record -a -e lock:contention_begin,lock:contention_end`, then `perf lock contention -i perf.data`"},
	{"mem", "`perf mem record`, where the PMU samples memory accesses, then `gperf report --mem-mode`"},
	{"pprof", "`gperf report --format pprof -o perf.pb.gz` writes a profile for go tool pprof"},
	{"sched", "`gperf record -a -e 'sched:*'`, then `perf sched timehist -i perf.data`"},
	{"stat", "gperf takes samples and does not count; `gperf report --stats` prints the samples by event"},
	{"test", "perf test tests perf"},
	{"timechart", "`gperf record -a -e 'sched:*,power:*'`, then `perf timechart -i perf.data`"},
	{"trace", "`gperf record -e 'raw_syscalls:*' COMMAND`, then `perf trace -i perf.data`"},
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
