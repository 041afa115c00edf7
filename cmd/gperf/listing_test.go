package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// corpus are recordings that others made, with what perf prints of them.
const corpus = "../../../shared/fixtures/perf-data"

// listings are the commands whose outputs the corpus has, under its names, that
// tell of a file and not of its samples.
var listings = map[string][]string{
	"header":       {"report", "--header-only"},
	"evlist":       {"evlist", "-v"},
	"buildid-list": {"buildid-list"},
}

// unlikePerf7 are the listings of perf 7.3.4 that differ, and why.
var unlikePerf7 = map[string]string{
	"gio.perf.data buildid-list":                      vdsoCopy,
	"quipper.perf.data.piped.target-3.4 buildid-list": vdsoCopy,
}

const vdsoCopy = "perf shows the random name of its own copy of the vDSO"

// TestListingsEqualPerf compares with the checksums of perf 7.3.4's outputs. Of
// files that it refuses, anything may be told; those that are malformed may be
// refused.
func TestListingsEqualPerf(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(corpus, "reference-status.tsv"))
	if err != nil {
		t.Skipf("the corpus of recordings is not here: %v", err)
	}
	t.Setenv("TZ", "UTC")
	// The machine that the outputs are from.
	const devices = "sys/bus/event_source/devices/"
	machineOf(t, map[string]string{devices + "breakpoint/type": "5", devices + "msr/type": "10", devices + "power/type": "9",
		devices + "software/type": "1", devices + "tracepoint/type": "2", devices + "uprobe/type": "8"})
	dir := t.TempDir()
	for line := range strings.Lines(string(table)) {
		col := strings.Split(line, "\t")
		file, command, size, sum := col[0], col[2], col[5], col[6]
		args := listings[command]
		if col[1] != "7.3.4" || args == nil || size == "0" {
			continue // nothing that perf prints
		}
		t.Run(file+" "+command, func(t *testing.T) {
			if why := unlikePerf7[file+" "+command]; why != "" {
				t.Skip(why)
			}
			var out, errs bytes.Buffer
			code := run(append(slices.Clone(args), "-i", recordedIn2000(t, dir, file)), &out, &errs)
			if code == exitError && strings.HasPrefix(file, "fuzz.") {
				t.Skipf("malformed on purpose: %s", &errs)
			}
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, &errs)
			}
			if got := sha256.Sum256(out.Bytes()); hex.EncodeToString(got[:]) != sum {
				t.Errorf("differs from perf's output:\n%s\n%s", &out, &errs)
			}
		})
	}
}

// recordedIn2000 copies a file of the corpus, to give it the time that perf's
// outputs tell.
func recordedIn2000(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpus, name))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBuildIDsEqualQuippers compares with what quipper finds in the same files,
// in whatever order.
func TestBuildIDsEqualQuippers(t *testing.T) {
	expected, _ := filepath.Glob(filepath.Join(corpus, "../expected/quipper/*.buildids"))
	if len(expected) == 0 {
		t.Skip("the corpus of recordings is not here")
	}
	for _, path := range expected {
		name := "quipper." + strings.TrimSuffix(filepath.Base(path), ".buildids")
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := gperf(t, "buildid-list", "-i", filepath.Join(corpus, name))
			sameText(t, name, sortedLines(got), sortedLines(string(want)))
		})
	}
}

func sortedLines(text string) string {
	lines := slices.Sorted(strings.Lines(text))
	return strings.Join(slices.Compact(lines), "")
}
