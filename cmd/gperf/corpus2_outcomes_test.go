package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// equalBranches: perf orders branches with the same number of samples by the addresses of
// DSOs in perf's memory.
var equalBranches = map[string]keptDifference{"report": {
	"branches of a call graph with equal periods are in the order of their DSOs' names; perf's order depends on " +
		"addresses in its memory", branchesOf}}

// branchesOf returns the lines of a call graph without the lines between them, in alphabetical order.
func branchesOf(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(strings.TrimSpace(line), "|- "); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// replacedFile: perf splits call graphs by inode.
var replacedFile = map[string]keptDifference{"report": {
	"call graphs merge frames in files with the same path and build ID; perf distinguishes files with the same path by " +
		"their inodes", func(text string) string {
		var entries []string
		for line := range strings.Lines(text) {
			if strings.Contains(line, "%     ") {
				entries = append(entries, line)
			}
		}
		return strings.Join(entries, "")
	}}}

// nameOfPMU: simpleperf names the types of events in the recording.
var nameOfPMU = map[string]keptDifference{"evlist": {
	"gperf prints the names of events that simpleperf recorded", evlistFields}}

// lbrKernel: perf looks the kernel's addresses in LBR callchains up among the process's mappings.
var lbrKernel = map[string]keptDifference{"report": {
	"frames of the kernel in LBR callchains belong to the kernel; perf prints `[unknown] [.]`", func(text string) string {
		frames := regexp.MustCompile(`\[(unknown|kernel\.kallsyms)\] +\[[.k]\] 0xffffffff`)
		return branchesOf(frames.ReplaceAllString(text, "0xffffffff"))
	}}}

// TestCorpusNames checks names that only the recordings of simpleperf and hiperf contain.
func TestCorpusNames(t *testing.T) {
	for file, want := range map[string]string{
		"GrapheneOS.platform_system_extras.perf_with_symbols_for_nonzero_minvaddr_dso.data": "libc.so        [.] memcpy",
		"openharmony.developtools_hiperf.fp.uncompress.data":                                "[kernel.kallsyms]   [k] _raw_spin_unlock_irqrestore",
		"openharmony.developtools_hiperf.perf.data.libreport":                               "ld-musl-arm.so.1          [.] malloc",
	} {
		path := filepath.Join(corpusDir, "perf-data-2", file)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("the corpus is not there: %v", err)
		}
		var out, stderr bytes.Buffer
		line := []string{"report", "--stdio", "--no-children", "-g", "none", "--symfs", t.TempDir(), "-i", path}
		run(line, &out, &stderr)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %q in\n%s", file, want, firstLines(out.String(), 20))
		}
	}
}

// TestCorpusStacks checks callchains that are in hiperf's table of stacks.
func TestCorpusStacks(t *testing.T) {
	for _, file := range []string{"dwarf.compress.data", "fp.compress.data"} {
		path := filepath.Join(corpusDir, "perf-data-2", "openharmony.developtools_hiperf."+file)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("the corpus is not there: %v", err)
		}
		var out, stderr bytes.Buffer
		run([]string{"script", "-F", "ip", "--symfs", t.TempDir(), "-i", path}, &out, &stderr)
		samples := strings.Split(strings.TrimSpace(out.String()), "\n\n")
		if frames := strings.Fields(samples[0]); len(frames) < 10 || !strings.HasPrefix(frames[0], "ffffffc0") {
			t.Errorf("%s: the first sample has the callchain %q", file, frames)
		}
	}
}

// corpusOutcomes2 is the second corpus, in alphabetical order.
var corpusOutcomes2 = []outcome{
	{file: "AustinDumm.boot_lisp.perf.data", samples: 17},
	{file: "Code-Sploit.Nimorak.perf.data", samples: 5099},
	{file: "DecklynKern.chess.perf.data.old", samples: 7},
	{file: "ECROF88.ZenAuro_Axum_Template.perf.data", samples: 4},
	{file: "ECROF88.ZenAuro_Axum_Template.perf.data.old"},
	{file: "GrapheneOS.platform_system_extras.has_embedded_native_libs_apk_perf.data.2", samples: 671},
	{file: "GrapheneOS.platform_system_extras.perf.data", notice: "skipped 1 AUXTRACE records with 800 bytes of CoreSight ETM: gperf does not decode them\n"},
	{file: "GrapheneOS.platform_system_extras.perf_kernel.data", notice: "skipped 1 AUXTRACE records with 16368 bytes of CoreSight ETM: gperf does not decode them\n"},
	{file: "GrapheneOS.platform_system_extras.perf_test_max_stack_and_percent_limit.data", samples: 121},
	{file: "GrapheneOS.platform_system_extras.perf_with_mini_debug_info.data", samples: 1151},
	{file: "GrapheneOS.platform_system_extras.perf_with_missing_aux_data.data", kept: nameOfPMU},
	{file: "GrapheneOS.platform_system_extras.perf_with_symbols_for_nonzero_minvaddr_dso.data", samples: 317, kept: recordedNames},
	{file: "GrapheneOS.platform_system_extras.perf_with_trace_offcpu.data", samples: 2369, notice: "191 records were lost in 11 places while recording"},
	{file: "GrapheneOS.platform_system_extras.perf_with_unformatted_trace.data", notice: "skipped 1 AUXTRACE records with 80 bytes of CoreSight ETM: gperf does not decode them\n"},
	{file: "InterestingBrainPoops.inundatio.perf.data.2"},
	{file: "InterestingBrainPoops.inundatio.perf.data.old"},
	{file: "aholanda.edu-org-computadores.perf.data", samples: 9},
	{file: "akneni.flg.perf_oncpu.data", samples: 67},
	{file: "blankjul.moo-cpp.perf.data", samples: 4393},
	{file: "eclipse-oniro-mirrors.developtools_smartperf_host.perfCompressed.data", samples: 378},
	{file: "google.autofdo.perf.data.branch.next", samples: 1916},
	{file: "google.perf_data_converter.perf.data.busy.0-3.8", samples: 4},
	{file: "jbeich.platform_system_extras.has_embedded_native_libs_apk_perf.data", samples: 275, notice: "852 records were lost in 2 places while recording"},
	{file: "jbeich.platform_system_extras.perf_with_trace_offcpu.data", samples: 966},
	{file: "jnidzwetzki.pg-conf-ger-2026.old.perf", samples: 1196, kept: equalBranches},
	{file: "js324.webServerFromScratch.perf.data", samples: 4},
	{file: "naonao-cola.cuda-sample.perf.data", samples: 40, kept: replacedFile},
	{file: "nevesnunes.covlizer.perf.data", samples: 856, kept: lbrKernel},
	{file: "openharmony.developtools_hiperf.dwarf.compress.data", samples: 16},
	{file: "openharmony.developtools_hiperf.dwarf.uncompress.data", samples: 569},
	{file: "openharmony.developtools_hiperf.fp.compress.data", samples: 25},
	{file: "openharmony.developtools_hiperf.fp.uncompress.data", samples: 497},
	{file: "openharmony.developtools_hiperf.perf.data.libreport", samples: 1000},
	{file: "openharmony.developtools_hiperf.report_test.data", notice: "damaged: 1 part was skipped: at offset 0x596: the data ends after 84 of the 99 bytes of a MMAP2 record", fails: "header script events report stats"},
	{file: "openharmony.developtools_hiperf.report_test.data.2", samples: 20},
	{file: "openharmony.developtools_hiperf.report_test.data.3", notice: "damaged: 1 part was skipped: at offset 0xa53: the data ends after 5528 of the 12032 bytes of a type 33554432 record", fails: "script events report"},
	{file: "pshoben.llexp.perf.data", samples: 1984},
	{file: "unic0rn9k.slas.perf.data.old", samples: 8},
	{file: "waste37.mini-engine.perf.data", samples: 24},
	{file: "zzxuanyuan.gf-complete.perf.data", samples: 483},
	{file: "zzxuanyuan.gf-complete.perf.data.old", samples: 22},
}
