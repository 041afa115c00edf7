package main

import "gperf/cmd/gperf/cli"

// recordIdleFlags lists the flags of perf record that have no effect or are refused.
var recordIdleFlags = []cli.Idle{
	{Name: "affinity", Value: true, Why: "the Go runtime places the threads of gperf"},
	{Name: "aio", Why: "gperf does not write asynchronously; -z compresses and writes in a separate thread"},
	{Name: "buildid-all", Why: "the build IDs of all mapped files are recorded anyway"},
	{Name: "debuginfod", Why: "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{Name: "mmap-flush", Value: true, Why: "rings are drained when they are half full, and once a second"},
	{Name: "num-thread-synthesize", Value: true, Why: "one thread reads /proc"},
	{Name: "off-cpu-thresh", Value: true, Why: "it is an option of --off-cpu, which gperf refuses"},
	{Name: "proc-map-timeout", Value: true, Why: "gperf reads /proc/PID/maps without a time limit"},
	{Name: "threads", Why: "one thread drains all rings, into one file"},
	{Name: "vmlinux", Value: true, Why: "gperf record reads no vmlinux; script, report and annotate take -k"},
	{Name: "aux-sample", Why: "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), use perf",
		Refused: true},
	{Name: "off-cpu", Refused: true,
		Why: "gperf does not sum off-CPU time: -e sched:sched_switch -g records where threads stop running"},
	{Name: "setup-filter", Value: true, Refused: true,
		Why: "gperf pins no BPF filters: --filter filters by a tracepoint's fields"},
	{Name: "S,snapshot", Refused: true,
		Why: "gperf does not record AUX area snapshots (Intel PT, Arm SPE, CoreSight): " +
			"--overwrite keeps the newest samples"},
}
