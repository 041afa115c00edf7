package cli

// RecordIdle lists the flags of perf record without effect, and those that are refused.
var RecordIdle = []Idle{
	{Name: "affinity", Value: true, Why: "the Go runtime places the threads of gperf"},
	{Name: "aio", Why: "gperf does not write asynchronously; -z compresses and writes in a separate thread"},
	{Name: "buildid-all", Why: "the build IDs of all mapped files are recorded anyway"},
	{Name: "debuginfod", Why: "gperf record fetches no files; script, report and annotate take --debuginfod"},
	{Name: "mmap-flush", Value: true, Why: "rings are drained when they are half full, and once a second"},
	{Name: "num-thread-synthesize", Value: true, Why: "one thread reads /proc"},
	{Name: "proc-map-timeout", Value: true, Why: "gperf reads /proc/PID/maps without a time limit"},
	{Name: "threads", Why: "one thread drains all rings, into one file"},
	{Name: "vmlinux", Value: true, Why: "gperf record reads no vmlinux; script, report and annotate take -k"},
	{Name: "group", Why: "braces make a group: -e '{cycles,instructions}'", Refused: true},
	{Name: "clang-opt", Value: true, Why: "gperf compiles no BPF programs"},
	{Name: "clang-path", Value: true, Why: "gperf compiles no BPF programs"},
	{Name: "aux-sample", Why: "gperf does not record AUX areas (Intel PT, Arm SPE, CoreSight), use perf",
		Refused: true},
	{Name: "setup-filter", Value: true, Refused: true,
		Why: "gperf pins no BPF filters: --filter filters by a tracepoint's fields"},
	{Name: "S,snapshot", Refused: true,
		Why: "gperf does not record AUX area snapshots (Intel PT, Arm SPE, CoreSight): " +
			"--overwrite keeps the newest samples"},
}

// TopIdle lists the flags of perf top without effect, and those that are refused.
var TopIdle = []Idle{
	{Name: "z,zero", Why: "each table shows its own interval only"},
	{Name: "tui", Why: "gperf top draws its table on terminals unless --stdio is given"},
	{Name: "n,show-nr-samples", Why: "gperf top shows events per second"},
	{Name: "show-total-period", Why: "gperf top shows events per second"},
	{Name: "children", Why: "gperf top counts samples only in the function itself"},
	{Name: "no-children", Why: "gperf top counts samples only in the function itself"},
	{Name: "w,column-widths", Value: true, Why: "gperf top fits columns to the terminal"},
	{Name: "M,disassembler-style", Value: true, Why: onAnnotate},
	{Name: "asm-raw", Why: onAnnotate},
	{Name: "objdump", Value: true, Why: "gperf annotate disassembles itself"},
	{Name: "prefix", Value: true, Why: onAnnotate},
	{Name: "prefix-strip", Value: true, Why: onAnnotate},
	{Name: "source", Why: onAnnotate},
	{Name: "demangle-kernel", Why: "the kernel's names are demangled like others"},
	{Name: "num-thread-synthesize", Value: true, Why: "one thread reads /proc"},
	{Name: "proc-map-timeout", Value: true, Why: "gperf reads /proc/PID/maps without a time limit"},
	{Name: "overwrite", Why: "gperf top reads its rings as they fill"},
	{Name: "no-bpf-event", Why: "gperf top needs the records of BPF programs for their names"},
	{Name: "namespaces", Why: "gperf top shows no namespaces"},
	{Name: "percentage", Value: true, Why: "gperf top shows events per second"},
	{Name: "all-cgroups", Why: onRecord, Refused: true},
	{Name: "b,branch-any", Why: onRecord, Refused: true},
	{Name: "j,branch-filter", Value: true, Why: onRecord, Refused: true},
	{Name: "D,dump-symtab", Why: "perf top's symbol table is for its developers", Refused: true},
	{Name: "count-filter", Value: true, Why: "--percent-limit hides small entries", Refused: true},
	{Name: "group", Why: "braces make a group: -e '{cycles,instructions}'", Refused: true},
	{Name: "group-sort-idx", Value: true, Why: "gperf top shows each event by itself", Refused: true},
	{Name: "hierarchy", Why: onRecord, Refused: true},
	{Name: "ignore-callees", Value: true, Why: onRecord, Refused: true},
	{Name: "ignore-vmlinux", Why: "use --kallsyms FILE to read kernel symbols from FILE only", Refused: true},
	{Name: "stitch-lbr", Why: "gperf does not stitch the branches of several samples", Refused: true},
	{Name: "switch-on", Value: true, Why: onRecord, Refused: true},
	{Name: "switch-off", Value: true, Why: onRecord, Refused: true},
	{Name: "show-on-off-events", Why: "it belongs to --switch-on and --switch-off", Refused: true},
	{Name: "sym-annotate", Value: true, Refused: true,
		Why: "`gperf record`, then `gperf annotate FUNCTION`, shows a function's instructions"},
}

// DiffIdle lists the flags of perf diff without effect, and those that are refused.
var DiffIdle = []Idle{
	{Name: "D,dump-raw-trace", Why: "`gperf report -D` prints the records of a recording"},
	{Name: "m,modules", Why: "gperf always resolves modules"},
	{Name: "cycles-hist", Why: "gperf diff does not compare cycles of basic blocks", Refused: true},
	{Name: "stream", Why: "gperf diff does not compare streams of branches", Refused: true},
}

// Where the work of flags of perf top is done.
const (
	onAnnotate = "it applies to instructions: use gperf annotate"
	onRecord   = "gperf top does not have it: use gperf record, then gperf report"
)

// BuildIDListIdle lists the flags of perf buildid-list without effect, and those that are refused.
var BuildIDListIdle = []Idle{
	{Name: "m,kernel-maps", Refused: true,
		Why: "-k prints the running kernel's build ID; those of modules are in /sys/module"},
	{Name: "v,verbose", Why: "gperf buildid-list has no more to print"},
}
