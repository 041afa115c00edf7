// This file lists the flags of perf record, top, report and other commands that gperf ignores or refuses, with the
// reasons.

package cli

// ReportIdleFlags lists the flags of perf report without effect, and those that are refused.
var ReportIdleFlags = []Idle{
	{Name: "demangle", Why: "C++ and Rust names are demangled unless --no-demangle is given"},
	{Name: "demangle-kernel", Why: "the kernel's names are demangled like others"},
	{Name: "m,modules", Why: "the symbols of modules are always read"},
	{Name: "samples", Value: true, Why: "it belongs to perf's terminal view; gperf script prints single samples"},
	{Name: "skip-empty", Why: "events without samples are left out unless --no-skip-empty is given"},
	{Name: "addr2line", Value: true, Why: "gperf reads debug information itself"},
	{Name: "addr2line-style", Value: true, Why: "gperf reads debug information itself"},
	{Name: "objdump", Value: true, Why: "gperf annotate disassembles itself"},
	{Name: "unwind-style", Value: true, Why: "gperf unwinds stacks itself"},
	{Name: "source", Why: "gperf annotate prints instructions"},
	{Name: "asm-raw", Why: "it applies to instructions: use gperf annotate --asm-raw"},
	{Name: "M,disassembler-style", Value: true, Why: "it applies to instructions: use gperf annotate -M"},
	{Name: "prefix", Value: true, Why: "it applies to instructions: use gperf annotate --prefix"},
	{Name: "prefix-strip", Value: true, Why: "it applies to instructions: use gperf annotate --prefix-strip"},
	{Name: "percent-type", Value: true, Why: "it applies to instructions: use gperf annotate --percent-type"},
	{Name: "disable-order", Why: "it applies to --dump-raw-trace, which prints the records in order of time"},
	{Name: "ignore-vmlinux", Why: "use --kallsyms FILE to read kernel symbols from FILE only", Refused: true},
	{Name: "socket-filter", Value: true, Why: "use --sort socket to show sockets, -C to choose CPUs", Refused: true},
	{Name: "group-sort-idx", Value: true, Refused: true,
		Why: "gperf sorts groups by their first event: --no-group sorts each event by itself"},
	{Name: "switch-on", Value: true, Why: "--time chooses a part of the recording", Refused: true},
	{Name: "switch-off", Value: true, Why: "--time chooses a part of the recording", Refused: true},
	{Name: "show-on-off-events", Why: "it belongs to --switch-on and --switch-off", Refused: true},
	{Name: "itrace", Why: noTraces, Refused: true},
	{Name: "total-cycles", Why: "gperf does not count the cycles of blocks: perf report does", Refused: true},
	{Name: "stitch-lbr", Why: "gperf does not stitch the branches of several samples: perf report does", Refused: true},
	{Name: "show-ref-call-graph", Why: "gperf shows callchains of each event separately: use perf report",
		Refused: true},
}

// ScriptIdle lists the flags of perf script without effect, and those that are refused.
var ScriptIdle = []Idle{
	{Name: "a,all-cpus", Why: "it applies to recording with perf's scripts"},
	{Name: "d,debug-mode", Why: "gperf script always checks the order of samples and counts lost events",
		Refused: true},
	{Name: "demangle", Why: "C++ and Rust names are demangled unless --no-demangle is given"},
	{Name: "demangle-kernel", Why: "the kernel's names are demangled like others"},
	{Name: "addr2line", Value: true, Why: "gperf reads debug information itself"},
	{Name: "unwind-style", Value: true, Why: "gperf unwinds stacks itself"},
	{Name: "merge-callchains", Why: "deferred user callchains are always merged"},
	{Name: "show-kernel-path", Why: "the kernel is shown as [kernel.kallsyms]", Refused: true},
	{Name: "switch-on", Value: true, Why: "--time chooses a part of the recording", Refused: true},
	{Name: "switch-off", Value: true, Why: "--time chooses a part of the recording", Refused: true},
	{Name: "show-on-off-events", Why: "it belongs to --switch-on and --switch-off", Refused: true},
	{Name: "L,Latency", Why: "the kernel no longer records these attributes", Refused: true},
	{Name: "stitch-lbr", Why: "gperf does not stitch the branches of several samples", Refused: true},
	{Name: "itrace", Why: noTraces, Refused: true},
	{Name: "insn-trace", Why: noTraces, Refused: true},
	{Name: "call-trace", Why: noTraces, Refused: true},
	{Name: "call-ret-trace", Why: noTraces, Refused: true},
	{Name: "graph-function", Value: true, Why: "it belongs to --call-trace and --call-ret-trace", Refused: true},
	{Name: "xed", Why: "gperf annotate disassembles itself", Refused: true},
	{Name: "max-blocks", Value: true, Why: "it belongs to -F brstackinsn, which gperf does not print"},
	{Name: "dump-unsorted-raw-trace", Why: "-D prints the records in order of time", Refused: true},
	{Name: "guest-code", Why: noGuests, Refused: true},
	{Name: "guestkallsyms", Value: true, Why: noGuests, Refused: true},
	{Name: "guestmodules", Value: true, Why: noGuests, Refused: true},
	{Name: "guestmount", Value: true, Why: noGuests, Refused: true},
	{Name: "guestvmlinux", Value: true, Why: noGuests, Refused: true},
	{Name: "list-dlfilters", Why: "gperf loads no filters: perf script --list-dlfilters lists perf's", Refused: true},
	{Name: "dlarg", Value: true, Why: "it belongs to --dlfilter", Refused: true},
	{Name: "s,script", Value: true, Refused: true,
		Why: "gperf runs no scripts: perf script -s SCRIPT -i FILE reads gperf's recordings"},
	{Name: "g,gen-script", Value: true, Refused: true,
		Why: "gperf runs no scripts: perf script -g LANGUAGE -i FILE reads gperf's recordings"},
	{Name: "dlfilter", Value: true, Refused: true,
		Why: "gperf loads no filters: perf script --dlfilter FILTER -i FILE reads gperf's recordings"},
}

// Reasons that several flags share.
const (
	noTraces = "gperf does not decode instruction traces (Intel PT, Arm SPE, CoreSight): perf does"
	noGuests = "gperf has no symbols of virtual machines: --guest shows their samples as addresses"
)

// AnnotateIdle lists the flags of perf annotate without effect, and those that are refused.
var AnnotateIdle = []Idle{
	{Name: "m,modules", Why: "the symbols of modules are always read"},
	{Name: "demangle-kernel", Why: "the kernel's names are demangled like others"},
	{Name: "group", Why: "gperf annotate shows each event by itself"},
	{Name: "D,dump-raw-trace", Why: "`gperf report -D` prints the records of a recording", Refused: true},
	{Name: "ignore-vmlinux", Why: "use --kallsyms FILE to read kernel symbols from FILE only", Refused: true},
	{Name: "itrace", Why: noTraces, Refused: true},
}
