package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plainOpens is the source files that open files with package os or elf.Open, and whose files these are. All other
// files may belong to a recorded user, who may replace them by a FIFO, a device or a link at any moment: package
// untrusted opens these.
var plainOpens = map[string]string{
	"cmd/gperf/archive.go":                   "the command line",
	"cmd/gperf/archive_unpack.go":            "the command line",
	"cmd/gperf/tui/entries_keys.go":          "new files in the working directory",
	"record/continuous/config.go":            "the command line",
	"record/continuous/store.go":             "the command line",
	"report/overview/events.go":              "tracefs",
	"cmd/gperf/push.go":                      "the command line",
	"cmd/gperf/push_follow.go":               "the command line",
	"cmd/gperf/input.go":                     "the command line",
	"cmd/gperf/input/expand.go":              "the command line",
	"cmd/gperf/record_nosamples_linux.go":    "the recording just made",
	"internal/archive/archive.go":            "the command line",
	"internal/archive/file.go":               "the command line",
	"internal/archive/keep.go":               "the recording just made",
	"internal/archive/recording.go":          "the command line",
	"internal/dso/buildid.go":                "the kernel",
	"internal/dso/cache/cache.go":            "the cache",
	"internal/dso/debuginfod/cache.go":       "the cache",
	"internal/dso/debuginfod/cache_linux.go": "the cache",
	"internal/dso/kernel.go":                 "the kernel",
	"internal/inspect/machine.go":            "the kernel",
	"internal/pcapfilter/names.go":           "/etc",
	"internal/procmem/pages.go":              "the kernel",
	"internal/procfs/cgroup.go":              "the kernel",
	"internal/procfs/procfs.go":              "the kernel",
	"internal/procfs/read_other.go":          "the kernel",
	"internal/procfs/tasks.go":               "the kernel",
	"internal/spool/group.go":                "the spool",
	"internal/spool/ledger.go":               "the spool",
	"internal/spool/lock_unix.go":            "the spool, the store",
	"internal/spool/spool.go":                "the spool",
	"bpf/cost.go":                            "the kernel",
	"bpf/loader.go":                          "the kernel",
	"report/push/metrics.go":                 "the command line",
	"record/control.go":                      "the command line",
	"record/doctor/doctor.go":                "the kernel",
	"record/doctor/names.go":                 "the kernel",
	"record/doctor/probes.go":                "the kernel",
	"record/doctor/runtimes.go":              "$PATH",
	"record/event/breakpoint.go":             "the kernel",
	"record/event/pmu.go":                    "the kernel",
	"record/programs/offcpu_kernel.go":       "the kernel",
	"record/output/deleted.go":               "the recording",
	"record/perfevent/cgroup.go":             "the kernel",
	"record/perfevent/sysctl.go":             "the kernel",
	"record/probe/installed.go":              "the kernel",
	"record/probe/kernel/raw_tracepoint.go":  "the kernel",
	"record/probe/kernel/symbols.go":         "the kernel",
	"record/probe/program/file.go":           "directories of libraries",
	"record/probe/program/ifunc_amd64.go":    "the kernel",
	"record/probe/program/needed.go":         "/etc",
	"record/probe/set.go":                    "the kernel",
	"record/programs/sampler.go":             "the kernel",
	"record/programs/verdict.go":             "the kernel",
	"record/status.go":                       "the kernel",
	"record/synth/features.go":               "the kernel",
	"record/synth/kcore.go":                  "the kernel, the recording",
	"record/synth/synth.go":                  "the kernel, /lib/modules",
	"record/tracefs/tracefs.go":              "the kernel",
	"report/push/request.go":                 "the command line",
	"symbolize/code.go":                      "the kernel, the command line",
	"symbolize/kernel.go":                    "the kernel, the command line",
}

// TestHouseOpens compares plainOpens with the code.
func TestHouseOpens(t *testing.T) {
	root := filepath.Join("..", "..")
	opens := map[string][]string{"os": {"Open", "OpenFile", "ReadFile", "ReadDir"}, "elf": {"Open"}}
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "testutil" || d.Name() == "untrusted") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "generate.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if ok && slices.Contains(opens[pkg.Name], sel.Sel.Name) {
				rel, _ := filepath.Rel(root, path)
				found[filepath.ToSlash(rel)] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if plainOpens[name] == "" {
			t.Errorf("%s opens plainly: open files by package untrusted, or say in plainOpens whose they are", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plainOpens)) {
		if !found[name] {
			t.Errorf("%s is in plainOpens, and opens no such files", name)
		}
	}
}
