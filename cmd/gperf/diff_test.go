package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func testRecording(name string) string { return filepath.Join(root, "testdata", name) }

// foldedPair is the numbers of a line of gperf diff --format folded.
type foldedPair struct{ base, other uint64 }

func diffFolded(t *testing.T, old, new string) map[string]foldedPair {
	t.Helper()
	lines := map[string]foldedPair{}
	for line := range strings.Lines(mustGperf(t, "diff", "--format", "folded", old, new)) {
		words := strings.Fields(line)
		n := len(words)
		if n < 3 {
			t.Fatalf("%q has no two numbers", line)
		}
		base, err1 := strconv.ParseUint(words[n-2], 10, 64)
		other, err2 := strconv.ParseUint(words[n-1], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q: %v, %v", line, err1, err2)
		}
		lines[strings.Join(words[:n-2], " ")] = foldedPair{base, other}
	}
	return lines
}

func TestDiffFolded(t *testing.T) {
	two := testRecording("two.data")
	plain := mustGperf(t, "report", "--format", "folded", "-i", two)
	same := diffFolded(t, two, two)
	for line := range strings.Lines(plain) {
		stack, count, _ := strings.Cut(strings.TrimSpace(line[:strings.LastIndex(line, " ")])+"\x00"+
			strings.TrimSpace(line[strings.LastIndex(line, " "):]), "\x00")
		if p := same[stack]; p.base != p.other || strconv.FormatUint(p.other, 10) != count {
			t.Errorf("%s: %d and %d, want %s twice", stack, p.base, p.other, count)
		}
	}
	// The baseline is scaled: both sums are equal, up to rounding of each line.
	var sum foldedPair
	lines := diffFolded(t, testRecording("drops.data"), two)
	for _, p := range lines {
		sum.base += p.base
		sum.other += p.other
	}
	if len(lines) < 10 || math.Abs(float64(sum.base)-float64(sum.other)) > float64(len(lines)) && sum.base != 0 {
		t.Errorf("%d lines: the sums are %d and %d", len(lines), sum.base, sum.other)
	}
}

func TestDiffFlameGraph(t *testing.T) {
	page := func(old, new string) (totals, bases []uint64) {
		text := mustGperf(t, "diff", "--format", "flamegraph", old, new)
		_, text, _ = strings.Cut(text, `<script id="data" type="application/json">`)
		text, _, _ = strings.Cut(text, "</script>")
		var data struct {
			Events []struct{ Totals, Bases []uint64 }
		}
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		for _, e := range data.Events {
			totals, bases = append(totals, e.Totals...), append(bases, e.Bases...)
		}
		return totals, bases
	}
	two, drops := testRecording("two.data"), testRecording("drops.data")
	if totals, bases := page(two, two); len(totals) < 10 || !slices.Equal(totals, bases) {
		t.Errorf("a recording differs from itself: %d, %d", totals, bases)
	}
	if totals, bases := page(drops, two); len(bases) != len(totals) || slices.Equal(totals, bases) {
		t.Errorf("different recordings: %d, %d", totals, bases)
	}
}

func TestDiffWrongUse(t *testing.T) {
	two := testRecording("two.data")
	for _, c := range []struct{ args, want string }{
		{"-c nosuch", "use delta-abs"},
		{"-c wdiff", "name two weights"},
		{"-o 2", "there are 2 recordings"},
		{"-s nosuch", "unknown key"},
		{"--format svg", "use text, folded"},
		{"--format folded -d libc.so.6", "--dsos and --symbols are for --format text"},
		{"--stream", "does not compare streams"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append(append([]string{"diff"}, strings.Fields(c.args)...), two, two)
			if r := runGperf(t, args...); r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
				t.Errorf("exit code %d, %q; want %q", r.code, r.stderr, c.want)
			}
		})
	}
	t.Run("no recording", func(t *testing.T) {
		r := runGperf(t, "diff", filepath.Join(t.TempDir(), "nosuch.data"), two)
		if r.code != exitError || !strings.Contains(r.stderr, "nosuch.data: no such file") {
			t.Errorf("exit code %d, %q", r.code, r.stderr)
		}
	})
}
