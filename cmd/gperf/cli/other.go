package cli

// OtherCommands lists commands that gperf does not have, most of them perf's, and their
// replacement. Each perf command here reads gperf's files.
var OtherCommands = []struct{ Name, Way string }{
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
