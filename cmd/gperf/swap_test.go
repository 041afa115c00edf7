package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/inputs"
)

// foreignDir holds recordings by others, next to the checkout.
var foreignDir = filepath.Join(root, "..", "shared", "fixtures", "perf-data")

// ownFiles are the recordings in testdata.
func ownFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "testdata", "*.data"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	return files
}

// foreignFiles returns the recordings by others, without the reference outputs and the
// README in their directory.
func foreignFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(foreignDir)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recordings by others in %s", foreignDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if strings.Contains(name, ".perf-") && strings.Contains(name, ".txt") ||
			strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".tsv") || !e.Type().IsRegular() {
			continue
		}
		files = append(files, filepath.Join(foreignDir, name))
	}
	return files
}

// twins are recordings by others whose big-endian twins print the same, each
// chosen for the content noted here. perf 7.3.4 prints the same script text for these twins, too,
// so they equal recordings of a big-endian machine, except the two marked with *, which perf
// reads wrongly.
var twins = []string{
	"hotspot.perf.data.PerfFormatLost",                       // READ with ids and lost ones, registers, KSYMBOL
	"autofdo.ro_sample.perf",                                 // samples of one event
	"gio.perf.data",                                          // an attr of 112 bytes, no build IDs
	"linux-perf-data.sleep.data",                             // ID_INDEX, CPU_MAP, EVENT_UPDATE, CLOCK_DATA
	"onestop.perf.data",                                      // callchains, MMAP2 with build IDs, PMU_CAPS
	"perfparser.probe.data.file",                             // a tracepoint
	"perfparser.vector_static_gcc.perf.lbr.data",             // callchains and branch stacks with hw_idx
	"quipper.perf.data.armv7-3.4",                            // ids in sample ids, event types
	"quipper.perf.data.branch-4.14",                          // branch stacks, TIME_CONV, CACHE
	"quipper.perf.data.callgraph_and_branch-3.4",             // callchains and branch stacks without hw_idx
	"quipper.perf.data.ctx_switch_namespaces-4.14",           // SWITCH, NAMESPACES
	"quipper.perf.data.group_desc-4.14",                      // GROUP_DESC
	"quipper.perf.data.hw_and_sw-3.4",                        // THROTTLE, fixed period
	"quipper.perf.data.hybrid_topology",                      // HYBRID_TOPOLOGY, units of events
	"quipper.perf.data.intel_pt-4.14",                        // AUXTRACE with payload, ITRACE_START, SWITCH_CPU_WIDE
	"quipper.perf.data.lost_samples-4.4",                     // LOST_SAMPLES, precise events
	"quipper.perf.data.piped.header_feautres_group_desc-6.8", // a pipe with HEADER_FEATURE records
	"quipper.perf.data.piped.target-3.4",                     // * a pipe with HEADER_EVENT_TYPE
	"quipper.perf.data.piped.target.throttled-3.4",           // * THROTTLE in a pipe
	"quipper.perf.data.proc.map.timeout-3.18",                // many MMAP2
	"quipper.perf.data.raw-3.4",                              // raw data of no tracepoint
	"quipper.perf.data.weight_struct",                        // WEIGHT_STRUCT, DATA_SRC, ADDR
	"simpleperf.etm.perf_etm.data",                           // AUXTRACE of ETM
	"simpleperf.perf_b.data",                                 // LOST
	"simpleperf.perf_with_two_event_types.data",              // simpleperf's META_INFO
}

// twinFields are fields that some of them have besides the usual ones.
var twinFields = map[string]string{
	"perfparser.vector_static_gcc.perf.lbr.data": "+brstack",
	"quipper.perf.data.branch-4.14":              "+brstack",
	"quipper.perf.data.callgraph_and_branch-3.4": "+brstack",
	"quipper.perf.data.weight_struct":            "+addr,+weight,+data_src",
	"simpleperf.perf_b.data":                     "+brstack",
	"hotspot.perf.data.PerfFormatLost":           "+uregs,+addr,+data_src",
}

// twinKeys are sort keys of recordings whose rows do not have the same order by default:
// as in perf, the bytes of a field decide between rows with equal figures.
var twinKeys = map[string]string{"answers.data": "trace"}

func TestSwappedTwins(t *testing.T) {
	files := slices.DeleteFunc(ownFiles(t), func(path string) bool {
		// swap does not look into compressed data, and refuses the features of
		// records.data, which are not quite those that perf writes.
		return strings.HasSuffix(path, ".z.data") || filepath.Base(path) == "records.data"
	})
	var foreign []string
	if _, err := os.Stat(foreignDir); err != nil {
		t.Logf("no recordings by others in %s", foreignDir)
	} else {
		foreign = twins
	}
	for _, name := range foreign {
		files = append(files, filepath.Join(foreignDir, name))
	}
	t.Setenv("TZ", "UTC")
	kallsyms := filepath.Join(root, "testdata", "kallsyms")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			twin := writeTwin(t, file)
			all := [][]string{
				{"script", "--kallsyms", kallsyms, "-i"},
				{"script", "--header-only", "-I", "-i"},
				{"report", "--stdio", "--kallsyms", kallsyms, "-i"},
				{"evlist", "-v", "-i"},
				{"buildid-list", "-i"},
			}
			if keys := twinKeys[filepath.Base(file)]; keys != "" {
				all[2] = append([]string{"report", "--sort", keys}, all[2][1:]...)
			}
			if fields := twinFields[filepath.Base(file)]; fields != "" {
				all = append(all, []string{"script", "-F", fields, "--kallsyms", kallsyms, "-i"})
			}
			for _, args := range all {
				want, wantErr := gperf(t, append(args, file)...)
				got, gotErr := gperf(t, append(args, twin)...)
				what := strings.Join(args, " ") + " " + twin
				sameText(t, what, got, want)
				sameText(t, what+", on stderr", strings.ReplaceAll(gotErr, twin, file), wantErr)
			}
		})
	}
}

// writeTwin writes a file's twin, as old as the file.
func writeTwin(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := inputs.SwapBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	twin := filepath.Join(t.TempDir(), "twin.data")
	if err := os.WriteFile(twin, out, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(twin, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	return twin
}
