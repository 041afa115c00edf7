package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/format"
	"gperf/internal/testutil/programs"
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
	weights := func(old, new string) (bases, others []uint64) {
		page := readPage(t, mustGperf(t, "diff", "--format", "flamegraph", old, new))
		list, sides := page.varints(t, "weight"), page.Recordings
		if len(sides) != 2 || !sides[0].Baseline || sides[1].Baseline {
			t.Fatalf("recordings %+v", sides)
		}
		return list[:sides[1].Start], list[sides[1].Start:]
	}
	two, drops := testRecording("two.data"), testRecording("drops.data")
	if bases, others := weights(two, two); len(bases) < 10 || !slices.Equal(bases, others) {
		t.Errorf("a recording differs from itself: %d, %d", bases, others)
	}
	if bases, others := weights(drops, two); len(bases) == 0 || slices.Equal(bases, others) {
		t.Errorf("different recordings: %d, %d", bases, others)
	}
}

// recordedCycles writes a recording of cycles with these flags of attrs, and as many samples of each.
func recordedCycles(t *testing.T, flags []format.AttrFlags, samples []int) string {
	t.Helper()
	var attrs []format.Attr
	var data []byte
	for i, f := range flags {
		id := uint64(7 + i)
		attrs = append(attrs, format.Attr{Type: format.TypeHardware, SamplePeriod: 100, Flags: f,
			SampleType: usual | format.SampleID, IDs: []uint64{id}})
		for n := range samples[i] {
			data = append(data, sample(format.MiscUser, u64s(0x400100), pidTID(10, 10), u64s(uint64(1000+n), id))...)
		}
	}
	return makeRecording(t, "x86_64", attrs, data)
}

// TestDiffModifiers: events of one name are compared, whatever their order; events that differ in modifiers only if
// none of the name is there, and gperf says so, as it names events that it compares with none.
func TestDiffModifiers(t *testing.T) {
	const both, user = format.AttrFlags(0), format.FlagExcludeKernel | format.FlagExcludeHV
	const kernel = format.FlagExcludeUser | format.FlagExcludeHV
	type flags = []format.AttrFlags
	for _, c := range []struct {
		name     string
		old, new flags
		want     []string // the events with the samples of both
		notices  []string
	}{
		{"the same", flags{user, kernel}, flags{user, kernel}, []string{"cycles:u 100 100", "cycles:k 200 200"}, nil},
		{"another order", flags{user, kernel}, flags{kernel, user}, []string{"cycles:u 100 200", "cycles:k 200 100"}, nil},
		{"twice", flags{both, both}, flags{both, both}, []string{"cycles 100 100", "cycles 200 200"}, nil},
		{"another mode", flags{user}, flags{kernel}, []string{"cycles:u 100 100"}, []string{"cycles:u of ", "modifiers differ"}},
		{"all modes", flags{user, kernel}, flags{both}, []string{"cycles:u 100 100", "cycles:k 200 100"},
			[]string{"cycles:u of ", "cycles:k of ", "modifiers differ"}},
		{"one is missing", flags{user, kernel}, flags{user}, []string{"cycles:u 100 100", "cycles:k 200"},
			[]string{"has no event cycles:k to compare"}},
		{"one is new", flags{both}, flags{user, both}, []string{"cycles 100 200"}, []string{"cycles:u of ", "is left out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, new := recordedCycles(t, c.old, []int{1, 2}), recordedCycles(t, c.new, []int{1, 2})
			out, stderr := gperf(t, "diff", "-p", "-s", "comm", old, new)
			var got []string
			for line := range strings.Lines(out) {
				words := strings.Fields(line)
				switch {
				case strings.HasPrefix(line, "# Event "):
					got = append(got, strings.Trim(words[2], "'"))
				case len(words) > 1 && words[0] != "#" && strings.HasSuffix(words[0], "%"):
					for _, w := range words[:len(words)-1] {
						if !strings.HasSuffix(w, "%") {
							got[len(got)-1] += " " + w
						}
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q in\n%s", got, c.want, out)
			}
			for _, notice := range c.notices {
				if !strings.Contains(stderr, notice) {
					t.Errorf("want %q in\n%s", notice, stderr)
				}
			}
			if c.notices == nil && strings.Contains(stderr, "gperf diff:") {
				t.Errorf("a notice without a reason: %s", stderr)
			}
		})
	}
}

func TestDiffWrongUse(t *testing.T) {
	two := testRecording("two.data")
	for _, c := range []struct{ args, want string }{
		{"-c nosuch", "use delta-abs"},
		{"-c cycles", "does not compare cycles"},
		{"-c wdiff", "name two weights"},
		{"-o 2", "there are 2 recordings"},
		{"-s nosuch", "unknown key"},
		{"--format csv", "use text, folded, pprof, flamegraph or svg"},
		{"--format folded -d libc.so.6", "--dsos and --symbols are for --format text"},
		{"--stream", "does not compare streams"},
		{"--time 1,2:3,4:5,6", "name one range for each of the 2 recordings"},
		{"--", "gperf diff old1.data old2.data -- new1.data new2.data"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append(append([]string{"diff"}, strings.Fields(c.args)...), two, two)
			if c.args == "--" {
				args = []string{"diff", two, "--"}
			}
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

// TestComparedSides: "--" separates sides of several recordings.
func TestComparedSides(t *testing.T) {
	for _, test := range []struct {
		args string
		dash int
		want string
	}{
		{"", -1, "[[perf.data.old] [perf.data]]"},
		{"a", -1, "[[perf.data.old] [a]]"},
		{"a b c", -1, "[[a] [b] [c]]"},
		{"a b", 0, "[[a] [b]]"},
		{"a b c", 2, "[[a b] [c]]"},
		{"a b c -- d", 1, "[[a] [b c] [d]]"},
	} {
		if got, err := comparedSides(strings.Fields(test.args), test.dash); err != nil ||
			fmt.Sprint(got) != test.want {
			t.Errorf("%q, %d: %v, %v; want %s", test.args, test.dash, got, err, test.want)
		}
	}
}

// fiveFunctions are addresses of functions of testdata/kallsyms.
var fiveFunctions = [5]uint64{atEntry, 0xffffffff81000138, atFault, 0xffffffff81000c90, 0xffffffff81000df0}

// slower returns the samples of a program in five functions, of which the third is slower by percent.
// jitter varies from recording to recording.
func slower(percent, jitter int) (list []taken) {
	for i := range 5 {
		n := 600 + (i*7+jitter*11)%13
		if i == 2 {
			n += 6 * percent
		}
		list = append(list, taken{"made", 10, fiveFunctions[i], n, 1000})
	}
	return append(list, taken{"made", 10, atUser, 3 + jitter, 1000})
}

// TestDiffFindsSlowerFunction: one function is slower by 20 %. It is first, and no other one changed
// by more than noise.
func TestDiffFindsSlowerFunction(t *testing.T) {
	var old, new []string
	for i := range 3 {
		old = append(old, saveTaken(t, "old.data", [2][]taken{slower(0, i)}))
		new = append(new, saveTaken(t, "new.data", [2][]taken{slower(20, i+1)}))
	}
	const slow = "[k] asm_exc_page_fault"
	for name, args := range map[string][]string{
		"two":        {"--noise", old[0], new[0]},
		"six":        slices.Concat(old, []string{"--"}, new),
		"six, ratio": slices.Concat([]string{"-c", "ratio"}, old, []string{"--"}, new),
	} {
		t.Run(name, func(t *testing.T) {
			out := mustGperf(t, slices.Concat([]string{"diff", "-s", "sym", "--kallsyms",
				testRecording("kallsyms")}, args)...)
			var rows []string
			for line := range strings.Lines(out) {
				if strings.Contains(line, "[") && !strings.HasPrefix(line, "#") {
					rows = append(rows, line)
				}
			}
			if len(rows) != 6 || !strings.Contains(rows[0], slow) || !strings.Contains(rows[0], " changed ") ||
				strings.Count(out, " changed ") != 1 || strings.Count(out, " noise ") != 5 {
				t.Errorf("want %s first, as the only change, in\n%s", slow, out)
			}
			if name == "six" && !regexp.MustCompile(`(#  \[0\] \S+ \(Baseline\)\n){3}#  \[1\] `).MatchString(out) {
				t.Errorf("not three recordings are the baseline:\n%s", out)
			}
		})
	}
}

var slowerProgram = programs.C("testdata/slower.c", "-O1", "-g")

// TestRecordDiffSlower: a recorded program with one function that is slower by 20 %.
func TestRecordDiffSlower(t *testing.T) {
	needEvents(t)
	dir, prog := t.TempDir(), slowerProgram.Path(t)
	var old, new []string
	for i := range 3 {
		for _, side := range []struct {
			files   *[]string
			percent string
		}{{&old, "0"}, {&new, "20"}} {
			file := filepath.Join(dir, side.percent+"."+strconv.Itoa(i))
			mustRecord(t, dir, "-e", "cpu-clock:u", "-F", "4000", "-o", file, "--", prog, side.percent)
			*side.files = append(*side.files, file)
		}
	}
	sides := slices.Concat(old, []string{"--"}, new)
	out := mustGperf(t, append([]string{"diff", "-s", "sym"}, sides...)...)
	if !regexp.MustCompile(`#\n +\d+\.\d+% +\+[1-5]\.\d+% .* changed +\[\.\] hash`).MatchString(out) {
		t.Errorf("hash is not the first change:\n%s", out)
	}
	archived := filepath.Join(dir, "new.zip")
	mustGperf(t, "archive", "-i", new[0], "-o", archived)
	pipe, err := os.ReadFile(old[0])
	if err != nil {
		t.Fatal(err)
	}
	want := mustGperf(t, "diff", "--noise", old[0], new[0])
	withStdin(t, string(pipe), func() int {
		got, _ := gperf(t, "diff", "--noise", "-", archived)
		sameText(t, "a pipe and an archive", got, want)
		return exitOK
	})
}
