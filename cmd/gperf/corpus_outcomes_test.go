package main

import (
	"regexp"
	"strings"
)

// noEvent is the reason that gperf refuses streams for which perf prints an empty header.
const noEvent = "perf prints an empty header and counts of 0 for a stream that describes no event; gperf reports an " +
	"error"

// noEventKept lists the commands with this difference.
var noEventKept = map[string]keptDifference{"header": {why: noEvent}, "report": {why: noEvent}, "stats": {why: noEvent}}

// intelPT is the reason that gperf prints less than perf for a recording with Intel PT: gperf
// counts and reports the records, but does not decode the trace.
var intelPT = map[string]keptDifference{
	"script": {"perf decodes the trace of Intel PT and prints its events, mostly errors; gperf prints the samples", func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			if strings.Contains(line, " cycles: ") {
				lines = append(lines, strings.Join(strings.Fields(line), " ")) // the names of the events make perf's columns wider
			}
		}
		return strings.Join(lines, "\n")
	}},
	"report": {"perf counts the events that it decodes from the trace of Intel PT; gperf counts the recorded events", func(text string) string {
		text, _, _ = strings.Cut(text, "\n\n\n")
		return text
	}},
}

// clampedCPUs: for a recording without the number of CPUs, perf 7.3.4 prints CPUs that the
// reading machine lacks as CPU 0.
var clampedCPUs = map[string]keptDifference{
	"script": {"gperf prints the recorded CPUs, as perf 6.1 does; perf 7.3.4 prints CPU 0 for those that the reading machine does not have", func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			// Before perf 6.6 an event without a name did not show modifiers.
			lines = append(lines, strings.Replace(strings.Join(strings.Fields(line), " "), " cycles:H: ", " cycles: ", 1))
		}
		return strings.Join(lines, "\n")
	}},
}

// hiddenModules: perf 7.3.4 finds a module with the kernel's addresses in some recordings.
var hiddenModules = map[string]keptDifference{
	"script": {whyHidden, ofKernel}, "report": {whyHidden, ofKernel},
}

const whyHidden = "modules whose addresses the recorder did not see own no address; perf prints one of them for " +
	"addresses of the kernel in some recordings"

// ofKernel returns the lines of samples with the kernel in place of the module, without columns and the modifiers
// that perf before 6.6 prints.
func ofKernel(text string) string {
	text = strings.NewReplacer("/lib/modules/3.13.0-76-generic/kernel/drivers/ata/pata_acpi.ko", "[kernel.kallsyms]",
		"[pata_acpi]", "[kernel.kallsyms]", " cycles:HG: ", " cycles: ").Replace(text)
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(lines, "\n")
}

// recordedNames: perf does not read the symbols that recordings of simpleperf contain.
var recordedNames = map[string]keptDifference{
	"script": {whyRecorded, withoutNames}, "events": {whyRecorded, withoutNames},
	"report": {whyRecorded, func(text string) string {
		return strings.Join(regexp.MustCompile(`(?m)^# Event count.*$`).FindAllString(text, -1), "\n")
	}},
}

// recordedNames1 are the recorded names of the first corpus.
var recordedNames1 = map[string]keptDifference{
	"script": recordedNames["script"], "report": recordedNames["report"],
}

const whyRecorded = "gperf prints the names that recordings of simpleperf contain"

// frameLine matches the line of a frame or of a sample up to the address, and the file after the name.
var frameLine = regexp.MustCompile(`(?m)^(.*? [a-z-]+(?::[a-zA-Z]+)?: +[0-9a-f]+|\s+[0-9a-f]+) .* (\([^()]*\))$`)

// withoutNames drops the names of frames, and the modifiers that perf before 6.6 prints.
func withoutNames(text string) string {
	return frameLine.ReplaceAllString(strings.ReplaceAll(text, ":HG: ", ": "), "$1 $2")
}

// corpusOutcomes is the corpus, in alphabetical order.
var corpusOutcomes = []outcome{
	{file: "autofdo.ro_sample.perf", samples: 13},
	{file: "dewbench.perf.data.old", samples: 123, notice: "the recording was not finished properly (its data size is 0): reading to the end of the file"},
	{file: "fuzz.clusterfuzz-4883679740166144", refused: "no event is described before the first sample", kept: noEventKept},
	{file: "fuzz.clusterfuzz-5980151822942208", refused: "at offset 0x10: attr entries of 6 bytes are shorter than 80"},
	{file: "fuzz.poc-15c4696aab8d", refused: "no event is described before the first sample", kept: noEventKept},
	{file: "fuzz.poc-1d0e6544b4ad", refused: "at offset 0x10: attr entries of 6 bytes are shorter than 80"},
	{file: "fuzz.poc-2125342715d1", fails: "script report", notice: "at offset 0xae: the data ends after 2954 of the 37522 bytes of a type 2459079314 record"},
	{file: "fuzz.poc-39297b2ac020", refused: "no event is described before the first sample", kept: noEventKept},
	{file: "fuzz.poc-3be2b745d86f", fails: "script report", notice: "at offset 0x6a: a record of 0 bytes, type 1166016512: what follows cannot be found"},
	{file: "fuzz.poc-3c490f25d455", refused: "no event is described before the first sample", kept: map[string]keptDifference{"header": {why: noEvent}, "report": {why: noEvent}}},
	{file: "fuzz.poc-4a52fdd4e9d5", refused: "at offset 0x10: attr entries of 6 bytes are shorter than 80"},
	{file: "fuzz.poc-56c11c81f1da", fails: "script report", notice: "at offset 0x66a: a record of 0 bytes, type 268435470: what follows cannot be found"},
	{file: "fuzz.poc-7bef7f895afc", refused: "no event is described before the first sample", kept: noEventKept},
	{file: "fuzz.poc-8b38b630443e", refused: "at offset 0x10: attr entries of 0 bytes are shorter than 80"},
	{file: "fuzz.poc-95cc7524c6b5", refused: "no event is described before the first sample", kept: noEventKept},
	{file: "fuzz.poc-c895bf2ccfcc", refused: "at offset 0x10: attr entries of 0 bytes are shorter than 80"},
	{file: "fuzz.poc-cea30a3a2372", refused: "no event is described before the first sample: at offset 0x10: event 0: attr of 52 bytes is shorter than 64", kept: map[string]keptDifference{"header": {why: noEvent}, "report": {why: noEvent}}},
	{file: "fuzz.poc-fd76c99f4c02", refused: "the file describes no event"},
	{file: "gio.perf.data", samples: 93},
	{file: "hotspot.perf.data.PerfFormatLost", samples: 34, printed: 68},
	{file: "hotspot.perf.data.true.v1"},
	{file: "hotspot.perf.data.true.v2", samples: 1},
	{file: "hotspot.perf.data.true.v2.gz", refused: "it is compressed with gzip: decompress it first (gunzip)"},
	{file: "linux-perf-data.sleep.compressed.data", samples: 8},
	{file: "linux-perf-data.sleep.compressed2.data", samples: 7},
	{file: "linux-perf-data.sleep.compressed2.pipe.data", samples: 7, notice: "at offset 0x7c40: the data ends after 143 of the 29216 bytes of a type 1701847131 record"},
	{file: "linux-perf-data.sleep.data", samples: 7},
	{file: "linux-perf-file-reader.perf.data", samples: 7},
	{file: "linuxtracepoints.perf.data", samples: 539},
	{file: "onestop.perf.data", samples: 3203},
	{file: "perfparser.contentsize.data", samples: 69},
	{file: "perfparser.probe.data.file", samples: 1, sort: "trace"},
	{file: "perfparser.vector_static_gcc.perf.data", samples: 45},
	{file: "perfparser.vector_static_gcc.perf.data.zstd", samples: 34},
	{file: "perfparser.vector_static_gcc.perf.lbr.data", samples: 29},
	{file: "quipper.perf.data.armv7-3.4", samples: 3893},
	{file: "quipper.perf.data.branch-4.14", samples: 13},
	{file: "quipper.perf.data.branch_stack_spec", samples: 8},
	{file: "quipper.perf.data.callgraph-3.4", samples: 1548},
	{file: "quipper.perf.data.callgraph_and_branch-3.4", samples: 923},
	{file: "quipper.perf.data.ctx_switch_namespaces-4.14", samples: 2},
	{file: "quipper.perf.data.group_desc-4.14", samples: 13},
	{file: "quipper.perf.data.hw_and_sw-3.4", samples: 4941},
	{file: "quipper.perf.data.hybrid_topology", samples: 7},
	{file: "quipper.perf.data.intel_pt-4.14", samples: 15, kept: intelPT, notice: "bytes of Intel PT: gperf does not decode them"},
	{file: "quipper.perf.data.lost_samples-4.4", samples: 191, notice: "2 samples were lost while recording"},
	{file: "quipper.perf.data.piped.corrupted.zero_size_sample-3.2", fails: "script report", notice: "at offset 0xbfd0: a record of 0 bytes, SAMPLE: what follows cannot be found"},
	{file: "quipper.perf.data.piped.header_features-4.16", samples: 2},
	{file: "quipper.perf.data.piped.header_feautres_group_desc-6.8", samples: 21},
	{file: "quipper.perf.data.piped.target-3.4", samples: 1414},
	{file: "quipper.perf.data.piped.target.throttled-3.4", samples: 228, kept: clampedCPUs},
	{file: "quipper.perf.data.proc.map.timeout-3.18", samples: 8},
	{file: "quipper.perf.data.raw-3.4", samples: 441},
	{file: "quipper.perf.data.remmap-3.2", samples: 198},
	{file: "quipper.perf.data.singleprocess-3.4", samples: 77},
	{file: "quipper.perf.data.systemwide.0-3.4", samples: 507},
	{file: "quipper.perf.data.systemwide.1-3.8", samples: 755},
	{file: "quipper.perf.data.throttle-3.8", samples: 14980},
	{file: "quipper.perf.data.weight_struct", samples: 14},
	{file: "rcppthread.perf-mem.data", samples: 698},
	{file: "simpleperf.etm.perf_etm.data", notice: "1 AUXTRACE records with "},
	{file: "simpleperf.lbr.perf_lbr.data", samples: 19, kept: recordedNames1},
	{file: "simpleperf.perf.data", samples: 2409, kept: hiddenModules},
	{file: "simpleperf.perf_b.data", samples: 150, kept: hiddenModules, notice: "461 records were lost in 1 places while recording"},
	{file: "simpleperf.perf_display_bitmaps.data", samples: 525, kept: recordedNames1},
	{file: "simpleperf.perf_for_build_id_check.data", samples: 4408},
	{file: "simpleperf.perf_g_fp.data", samples: 10, notice: "590 records were lost in 1 places while recording"},
	{file: "simpleperf.perf_merge1.data", samples: 27, kept: recordedNames1},
	{file: "simpleperf.perf_test_vmlinux.data", samples: 1, kept: recordedNames1},
	{file: "simpleperf.perf_with_arm_regs.data", samples: 1},
	{file: "simpleperf.perf_with_callchain_record.data", samples: 21, kept: recordedNames1},
	{file: "simpleperf.perf_with_symbols.data", samples: 935, kept: recordedNames1},
	{file: "simpleperf.perf_with_trace_offcpu_v2.data", samples: 304},
	{file: "simpleperf.perf_with_tracepoint_event.data", samples: 45},
	{file: "simpleperf.perf_with_two_event_types.data", samples: 10},
}
