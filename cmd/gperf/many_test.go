package main

import (
	"bytes"
	"debug/elf"
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	machines "gperf/internal/testutil/recording"
)

var fleetSize = flag.Int("recordings", 30, "how many recordings TestManySum reads")

// fleetOf makes recordings of as many hosts.
func fleetOf(t *testing.T, n int, bases ...string) (dir string, paths []string) {
	t.Helper()
	for i := range bases {
		bases[i] = filepath.Join(root, "testdata", bases[i])
	}
	dir = t.TempDir()
	paths, err := machines.MakeFleet(dir, bases, n)
	if err != nil {
		t.Fatal(err)
	}
	return dir, paths
}

// symbolsOf are flags that find the symbols of recordings in testdata.
func symbolsOf() []string {
	return []string{"--kallsyms", filepath.Join(root, "testdata", "kallsyms"), "--symfs", recordedFiles.dir}
}

// reportTable is the samples and periods of a report by all other columns.
type reportTable map[string][2]uint64

// addCSV adds the rows of a report of a recording. event is the event of reports without the column Event.
func (sum reportTable) addCSV(t *testing.T, event, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		key, figures := []string{event}, map[string]uint64{}
		for i, head := range rows[0] {
			switch head {
			case "Event":
				key[0] = row[i]
			case "Samples", "Period":
				n, err := strconv.ParseUint(row[i], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				figures[head] = n
			case "Overhead", "sys", "usr":
			default:
				key = append(key, row[i])
			}
		}
		k := strings.Join(key, "|")
		sum[k] = [2]uint64{sum[k][0] + figures["Samples"], sum[k][1] + figures["Period"]}
	}
}

// TestManySum: a report of many recordings, of several programs and events, is the sum of the single reports.
func TestManySum(t *testing.T) {
	bases := []string{"threads.data", "two.data", "drops.data"}
	events := []string{"cpu-clock:u", "", "skb:kfree_skb"}
	dir, paths := fleetOf(t, *fleetSize, bases...)
	args := slices.Concat([]string{"report", "--format", "csv", "--no-children", "--sort", "comm,dso,symbol"},
		symbolsOf())
	want := reportTable{}
	for i, path := range paths {
		text, _ := gperf(t, append(args, "-i", path)...)
		want.addCSV(t, events[i%len(events)], text)
	}
	text, stderr := gperf(t, append(args, "-i", dir)...)
	got := reportTable{}
	got.addCSV(t, "", text)
	if !maps.Equal(got, want) {
		t.Errorf("the report of %d recordings has\n%v\nwant the sum\n%v", len(paths), got, want)
	}
	if strings.Contains(stderr, "left out") {
		t.Error(stderr)
	}
}

// TestManyFolded: folded stacks of many recordings are the sum of theirs, and of each host with --by.
func TestManyFolded(t *testing.T) {
	dir, paths := fleetOf(t, 12, "threads.data", "two.data", "drops.data")
	args := slices.Concat([]string{"report", "--format", "folded", "--by-event"}, symbolsOf())
	sum, hosts := map[string]uint64{}, map[string]uint64{}
	add := func(to map[string]uint64, prefix, text string) {
		for line := range strings.Lines(text) {
			at := strings.LastIndexByte(line, ' ')
			n, err := strconv.ParseUint(strings.TrimSpace(line[at:]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			event, stack, _ := strings.Cut(line[:at], ";")
			to[event+";"+prefix+stack] += n
		}
	}
	for i, path := range paths {
		text, _ := gperf(t, append(args, "-i", path)...)
		add(sum, "", text)
		add(hosts, fmt.Sprintf("host=host%04d;", i), text)
	}
	for _, test := range []struct {
		by   []string
		want map[string]uint64
	}{{nil, sum}, {[]string{"--by", "host"}, hosts}} {
		text, _ := gperf(t, slices.Concat(args, test.by, []string{"-i", filepath.Join(dir, "*")})...)
		got := map[string]uint64{}
		add(got, "", text)
		if !maps.Equal(got, test.want) || len(got) == 0 {
			t.Errorf("%v: %d stacks\n%v\nwant the sum, %d\n%v", test.by, len(got), got, len(test.want), test.want)
		}
	}
}

// TestManyOrigins: hosts, files and boots are keys.
func TestManyOrigins(t *testing.T) {
	dir, paths := fleetOf(t, 3, "spans.data")
	report := func(keys string) string {
		text, _ := gperf(t, "report", "--format", "csv", "--sort", keys, "-i", dir)
		return text
	}
	for i, path := range paths {
		for _, want := range []string{fmt.Sprintf("host%04d", i), path} {
			if text := report("host,file"); !strings.Contains(text, want) {
				t.Errorf("--sort host,file has no %s:\n%s", want, text)
			}
		}
	}
	text := report("boot")
	if len(strings.Split(strings.TrimSpace(text), "\n")) != 4 || strings.Contains(text, "unknown") {
		t.Errorf("three boots are\n%s", text)
	}
	drops := filepath.Join(root, "testdata", "drops.data")
	text, _ = gperf(t, "report", "--format", "csv", "--sort", "boot", "-i", drops)
	if !strings.Contains(text, "unknown") {
		t.Errorf("without CLOCK_DATA, the boot is\n%s", text)
	}
}

// TestManyParallel: the output is the same whatever the number of CPUs.
func TestManyParallel(t *testing.T) {
	dir, _ := fleetOf(t, 9, "threads.data", "two.data", "drops.data")
	var first string
	for _, n := range []int{1, 2, 8} {
		old := runtime.GOMAXPROCS(n)
		var all strings.Builder
		for _, line := range []string{"report --stdio", "report --format csv --sort host,sym", "report --format folded",
			"report --format pprof -o -", "report --format svg"} {
			text, _ := gperf(t, slices.Concat(strings.Fields(line), symbolsOf(), []string{"-i", dir})...)
			all.WriteString(text)
		}
		runtime.GOMAXPROCS(old)
		if first == "" {
			first = all.String()
		}
		if all.String() != first {
			t.Errorf("%d CPUs: other output than with one", n)
		}
	}
}

// TestManyDamaged: a damaged recording is reported once, and costs only itself.
func TestManyDamaged(t *testing.T) {
	dir, paths := fleetOf(t, 6, "threads.data")
	b, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	for i, damaged := range [][]byte{b[:200], b[:len(b)*3/4]} { // the header is truncated, or the records are
		if err := os.WriteFile(paths[i], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"report --sort host", "report --format folded --by host", "script -F ip",
		"report --format json"} {
		var stdout, stderr bytes.Buffer
		code := run(slices.Concat(strings.Fields(command), []string{"-i", dir}), &stdout, &stderr)
		if code != exitError || strings.Count(stderr.String(), paths[0]) != 1 ||
			strings.Count(stderr.String(), paths[1]) != 1 ||
			!strings.Contains(stderr.String(), "left out 1 of 6 recordings") {
			t.Errorf("gperf %s: exit code %d, stderr:\n%s", command, code, &stderr)
		}
		if strings.Contains(command, "host") && (strings.Contains(stdout.String(), "host0000") ||
			!strings.Contains(stdout.String(), "host0001") || !strings.Contains(stdout.String(), "host0005")) {
			t.Errorf("gperf %s: wrong hosts:\n%s", command, &stdout)
		}
	}
	var stdout, stderr bytes.Buffer
	for _, path := range paths {
		os.WriteFile(path, b[:200], 0o600)
	}
	if code := run([]string{"report", "-i", dir}, &stdout, &stderr); code != exitError ||
		!strings.Contains(stderr.String(), "no recording could be read") {
		t.Errorf("only damaged recordings: exit code %d, stderr:\n%s", code, &stderr)
	}
}

// TestManyScript: script prints recordings one after the other.
func TestManyScript(t *testing.T) {
	dir, paths := fleetOf(t, 3, "threads.data", "two.data")
	for _, args := range [][]string{{"script"}, {"script", "--format", "json"}} {
		want := ""
		for i, path := range paths {
			text, _ := gperf(t, append(args, "-i", path)...)
			origin := fmt.Sprintf(`,"host":"host%04d","file":"%s","boot":"unknown","event":`, i, path)
			want += strings.ReplaceAll(text, `,"event":`, origin)
		}
		got, _ := gperf(t, append(args, "-i", dir)...)
		sameText(t, strings.Join(args, " "), got, want)
	}
}

// TestManyUsage: commands that show one recording only say so.
func TestManyUsage(t *testing.T) {
	dir, paths := fleetOf(t, 2, "threads.data")
	empty := t.TempDir()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"report --stats -i " + dir, exitUsage, "--stats reads one recording, and -i names 2"},
		{"report --tui -i " + dir, exitUsage, "--tui"},
		{"annotate -i " + dir, exitUsage, "annotate reads one recording, and -i names 2"},
		{"archive -i " + dir, exitUsage, "archive reads one recording"},
		{"report --sort hots -i " + dir, exitUsage, "did you mean host?"},
		{"report --format folded --by hots -i " + dir, exitUsage, "did you mean host?"},
		{"report -i " + empty, exitError, empty + ": no recordings"},
		{"report -i " + empty + "/*.data", exitError, "no file matches"},
		{"report --format svg -o " + paths[0] + " -i " + dir, exitUsage, "would overwrite the recording"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(test.args), &stdout, &stderr); code != test.code ||
			!strings.Contains(stderr.String(), test.want) {
			t.Errorf("gperf %s: exit code %d, %q; want %d and %q", test.args, code, &stderr, test.code, test.want)
		}
	}
}

// bigSource is a program with the strings of noiseFile in the debug information.
const (
	noiseFile = "noise"
	bigSource = `static inline __attribute__((always_inline)) int inner(int x) { asm volatile("nop"); return x * 3; }
__attribute__((noinline)) int hot(int x) { return inner(x) + 1; }
int main(int n, char **v) { return hot(n); }
asm(".section .debug_str,\"MS\",@progbits,1\n.incbin \"" "noise" "\"\n.text");
`
)

// noise returns random strings, which end with NUL.
func noise(size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(b)
	b[size-1] = 0
	return b
}

// TestArchiveURL: a report of a large archive on a server reads less than a tenth of it, and equals the report of the
// file.
func TestArchiveURL(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed (package gcc)")
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"a.c": []byte(bigSource), noiseFile: noise(6 << 20)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runLines(t, dir, "gcc -O1 -g -Wl,--build-id -no-pie -o a a.c")
	program := filepath.Join(dir, "a")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	hot := symbols[slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "hot" })]
	text := f.Section(".text")
	r := &recorder{attrs: 1}
	r.mmap(1, text.Addr-text.Offset, text.Offset+text.Size, program)
	r.chain(1, int(hot.Size), hot.Value)
	data := r.save(t)
	archive := filepath.Join(dir, "a.zip")
	gperf(t, "archive", "-i", data, "-o", archive)
	st, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(&countedResponse{w, &sent}, r, archive)
	}))
	defer s.Close()
	want, _ := gperf(t, "report", "--stdio", "-i", archive)
	got, _ := gperf(t, "report", "--stdio", "-i", s.URL+"/a.zip")
	sameText(t, "the report of an archive on a server", got, want)
	if !strings.Contains(got, "inner (inlined)") {
		t.Errorf("the report has no inlined calls:\n%s", got)
	}
	if n := sent.Load(); n >= st.Size()/10 {
		t.Errorf("the server sent %d bytes of an archive of %d", n, st.Size())
	}
	t.Logf("%d of %d bytes", sent.Load(), st.Size())
}

type countedResponse struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *countedResponse) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// TestURLErrors: errors of servers name them, and end the command soon.
func TestURLErrors(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	away := strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/x.zip"
	s := httptest.NewServer(http.RedirectHandler(away, http.StatusFound))
	defer s.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	for address, want := range map[string]string{
		dead.URL + "/x.zip":   "connection refused",
		secure.URL + "/x.zip": "certificate",
		s.URL + "/x.zip":      "redirected to another host",
		other.URL + "/x.zip":  "404 Not Found",
	} {
		began := time.Now()
		var stdout, stderr bytes.Buffer
		code := run([]string{"report", "-i", address}, &stdout, &stderr)
		if code != exitError || !strings.Contains(stderr.String(), want) ||
			!strings.Contains(stderr.String(), address) {
			t.Errorf("report -i %s: exit code %d, %q; want %q", address, code, &stderr, want)
		}
		if took := time.Since(began); took > patience(10*time.Second) {
			t.Errorf("report -i %s took %v", address, took)
		}
	}
}
