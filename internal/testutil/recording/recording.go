// Package recording helps tests with recordings: it opens one of the project's, makes recordings of many machines
// from one, and folds the text of perf script as FlameGraph's stackcollapse-perf.pl does.
package recording

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/symbolize"
)

// testdata is the folder of the recordings, relative to the folder of a package two levels below the top.
const testdata = "../../testdata"

// Open returns one of the project's recordings, which was written at a time. Kernel names come from the project's
// own list of symbols, and other names from no file.
func Open(t testing.TB, name string, written time.Time) *session.Session {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testdata, name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	id, ref, addr := session.RecordedKernel(f)
	symbols := symbolize.New(symbolize.Options{Kallsyms: filepath.Join(testdata, "kallsyms"),
		Locator:       &dso.Locator{Tree: dso.Tree{Root: t.TempDir()}},
		KernelBuildID: id, KernelRef: ref, KernelRefAddr: addr})
	return session.New(session.Options{File: f, Symbols: symbols, KeepExited: true, Written: written})
}
