package format_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/format"
)

// The corpus, next to the checkout: recordings from other projects, and the output of
// programs other than perf for them.
const (
	corpusDir   = "../../shared/fixtures/perf-data"
	expectedDir = "../../shared/fixtures/expected"
)

// needCorpus skips the test if the corpus is absent.
func needCorpus(t *testing.T) {
	t.Helper()
	for _, dir := range []string{corpusDir, expectedDir} {
		if _, err := os.Stat(dir); err != nil {
			t.Skipf("the corpus is not there: %v", err)
		}
	}
}

func openCorpus(t *testing.T, name string) *format.File {
	t.Helper()
	b := readCorpus(t, corpusDir, name)
	f, err := format.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// readCorpus returns the contents of a file, or of its .gz variant, decompressed.
func readCorpus(t *testing.T, dir, name string) []byte {
	t.Helper()
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		return b
	}
	z, err2 := os.ReadFile(path + ".gz")
	if err2 != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(z))
	if err == nil {
		b, err = io.ReadAll(r)
	}
	if err != nil {
		t.Fatalf("%s.gz: %v", path, err)
	}
	return b
}

// recordsOf returns a file's records in the order of its Reader. It fails if the Reader
// skips anything.
func recordsOf(t *testing.T, f *format.File) (l []format.Raw) {
	t.Helper()
	r := f.Records()
	for {
		rec, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, rec)
	}
	if r.Skipped.Count > 0 {
		t.Errorf("%d parts were passed over, the first: %v", r.Skipped.Count, r.Skipped.First)
	}
	return l
}

// inFileOrder sorts records by their offset in the file.
func inFileOrder(l []format.Raw) []format.Raw {
	slices.SortStableFunc(l, func(a, b format.Raw) int { return int(a.Off - b.Off) })
	return l
}

// samplesOf decodes a file's samples, in time order.
func samplesOf(t *testing.T, f *format.File) (l []format.Sample) {
	t.Helper()
	for _, r := range recordsOf(t, f) {
		if r.Type != format.TypeSample {
			continue
		}
		var s format.Sample
		if err := f.Sample(r, &s); err != nil {
			t.Fatal(err)
		}
		l = append(l, s)
	}
	return l
}

// firstDifferentLine returns the first line that differs between two texts, for messages.
func firstDifferentLine(got, want string) (g, w string) {
	gl, wl := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gl), len(wl)) {
		g, w = "nothing", "nothing"
		if i < len(gl) {
			g = gl[i]
		}
		if i < len(wl) {
			w = wl[i]
		}
		if g != w {
			break
		}
	}
	return g, w
}

var countsRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]* \\| [^|]* \\| ([A-Z][^|]*) \\|$")

// The corpus' README counts the records of each file by type, without those inside
// compressed records.
func TestCorpusCounts(t *testing.T) {
	needCorpus(t)
	types := map[string]format.Type{"EVENT_TYPE": 65}
	for n := range format.Type(128) {
		types[n.String()] = n
	}
	rows := countsRow.FindAllStringSubmatch(string(readCorpus(t, corpusDir, "README.md")), -1)
	if len(rows) < 50 {
		t.Fatalf("only %d files are counted", len(rows))
	}
	for _, row := range rows {
		file, counts := row[1], row[2]
		if file == "simpleperf.perf_with_tracepoint_event.data" {
			continue // the count ends at the tracing data, whose size is outside its record
		}
		t.Run(file, func(t *testing.T) {
			got := countRecords(t, openCorpus(t, file))
			for c := range strings.SplitSeq(counts, ", ") {
				name, number, _ := strings.Cut(c, " ")
				typ, ok := types[strings.TrimPrefix(name, "H_")]
				if n, err := strconv.ParseUint(name, 10, 32); err == nil {
					typ, ok = format.Type(n), true
				}
				want, err := strconv.Atoi(number)
				if n := got[typ]; !ok || err != nil || n < want || n > want && !strings.Contains(counts, "COMPRESSED") {
					t.Errorf("%d of type %d, want %s", n, typ, c)
				}
				delete(got, typ)
			}
			if len(got) > 0 && !strings.Contains(counts, "COMPRESSED") {
				t.Errorf("besides there are %v", got)
			}
		})
	}
}

func countRecords(t *testing.T, f *format.File) map[format.Type]int {
	t.Helper()
	count := map[format.Type]int{}
	r := f.Records()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		count[rec.Type]++
	}
}
