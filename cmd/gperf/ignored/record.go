package ignored

import "gperf/cmd/gperf/cli"

// Record lists the flags of perf record that have no effect or are refused.
var Record = []cli.Idle{
	{Name: "affinity", Value: true, Why: "the Go runtime places the threads of gperf"},
	{Name: "aio", Why: "gperf does not write asynchronously; -z compresses and writes in a separate thread"},
	{Name: "buildid-all", Why: "the build IDs of all mapped files are recorded anyway"},
	{Name: "debuginfod", Why: "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{Name: "mmap-flush", Value: true, Why: "rings are drained when they are half full, and once a second"},
	{Name: "num-thread-synthesize", Value: true, Why: "one thread reads /proc"},
	{Name: "proc-map-timeout", Value: true, Why: "gperf reads /proc/PID/maps without a time limit"},
	{Name: "threads", Why: "one thread drains all rings, into one file"},
	{Name: "vmlinux", Value: true, Why: "gperf record reads no vmlinux; script, report and annotate take -k"},
	{Name: "aux-sample", Why: "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), use perf",
		Refused: true},
	{Name: "setup-filter", Value: true, Refused: true,
		Why: "gperf pins no BPF filters: --filter filters by a tracepoint's fields"},
	{Name: "S,snapshot", Refused: true,
		Why: "gperf does not record AUX area snapshots (Intel PT, Arm SPE, CoreSight): " +
			"--overwrite keeps the newest samples"},
}

// Top lists the flags of perf top that have no effect.
var Top = []cli.Idle{
	{Name: "z,zero", Why: "each table shows its own interval only"},
	{Name: "tui", Why: "gperf top draws its table on terminals unless --stdio is given"},
	{Name: "n,show-nr-samples", Why: "gperf top shows events per second"},
	{Name: "show-total-period", Why: "gperf top shows events per second"},
	{Name: "children", Why: "gperf top counts samples only in the function itself"},
	{Name: "no-children", Why: "gperf top counts samples only in the function itself"},
}

// Diff lists the flags of perf diff that have no effect or are refused.
var Diff = []cli.Idle{
	{Name: "D,dump-raw-trace", Why: "`gperf report -D` prints the records of a recording"},
	{Name: "m,modules", Why: "gperf always resolves modules"},
	{Name: "cycles-hist", Why: "gperf diff does not compare cycles of basic blocks", Refused: true},
	{Name: "stream", Why: "gperf diff does not compare streams of branches", Refused: true},
}
