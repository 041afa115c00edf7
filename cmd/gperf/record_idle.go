package main

// recordIdleFlags lists the flags of perf record that have no effect or are refused.
var recordIdleFlags = []idleFlag{
	{name: "affinity", value: true, why: "the Go runtime places the threads of gperf"},
	{name: "aio", why: "gperf does not write asynchronously; -z compresses and writes in a separate thread"},
	{name: "buildid-all", why: "the build IDs of all mapped files are recorded anyway"},
	{name: "debuginfod", why: "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{name: "mmap-flush", value: true, why: "rings are drained when they are half full, and once a second"},
	{name: "num-thread-synthesize", value: true, why: "one thread reads /proc"},
	{name: "off-cpu-thresh", value: true, why: "it is an option of --off-cpu, which gperf refuses"},
	{name: "proc-map-timeout", value: true, why: "gperf reads /proc/PID/maps without a time limit"},
	{name: "threads", why: "one thread drains all rings, into one file"},
	{name: "vmlinux", value: true, why: "gperf record reads no vmlinux; script, report and annotate take -k"},
	{name: "aux-sample", why: "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), use perf",
		refused: true},
	{name: "off-cpu", refused: true,
		why: "gperf does not sum off-CPU time: -e sched:sched_switch -g records where threads stop running"},
	{name: "setup-filter", value: true, refused: true,
		why: "gperf pins no BPF filters: --filter filters by a tracepoint's fields"},
	{name: "S,snapshot", refused: true,
		why: "gperf does not record AUX area snapshots (Intel PT, Arm SPE, CoreSight): " +
			"--overwrite keeps the newest samples"},
}
