package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testdata = "../../testdata"

// fleetQuery is a question of docs/fleet.md.
type fleetQuery struct{ title, duckdb, clickhouse string }

var (
	fleetHeading = regexp.MustCompile(`(?m)^### \d+\. `)
	codeBlock    = regexp.MustCompile(`(?m)(?:^    .*\n)+`)
)

// fleetQueries returns the queries of docs/fleet.md, and the statement before them that makes DuckDB's view.
func fleetQueries(t *testing.T) (view string, queries []fleetQuery) {
	t.Helper()
	sections := fleetHeading.Split(readDoc(t, "docs/fleet.md"), -1)
	for _, section := range sections[1:] {
		title, _, _ := strings.Cut(section, "\n")
		blocks := codeBlock.FindAllString(section, -1)
		if len(blocks) != 2 {
			t.Fatalf("docs/fleet.md: %q has %d queries", title, len(blocks))
		}
		queries = append(queries, fleetQuery{title, blocks[0], strings.TrimSuffix(strings.TrimSpace(blocks[1]), ";")})
	}
	if len(queries) != 10 {
		t.Fatalf("docs/fleet.md has %d queries", len(queries))
	}
	blocks := codeBlock.FindAllString(sections[0], -1)
	return blocks[len(blocks)-1], queries
}

// hostRecording is one of the fleet's recordings.
type hostRecording struct {
	path, host string
	event      string // of the recordings with only one
	minute     time.Time
	flags      []string // select samples
}

// deployment is the time in docs/fleet.md.
var deployment = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// fleetFiles makes recordings of several hosts: copies of the project's with other names of hosts, times and build IDs.
func fleetFiles(t *testing.T) (list []hostRecording) {
	t.Helper()
	dir := t.TempDir()
	for i, c := range []struct {
		name, host, event string
		minute            int // after the deployment
		otherKernel       bool
		flags             []string
	}{
		{"two.data", "web-1", "", -2, false, nil},
		{"two.data", "web-2", "", 3, true, []string{"--time", "0%-60%"}},
		{"two.data", "web-2", "", 4, true, []string{"--comms", "drops"}},
		{"drops.data", "web-1", "skb:kfree_skb", -1, false, nil},
		{"drops.data", "web-2", "skb:kfree_skb", -1, false, nil},
		{"drops.perf.data", "db-1", "skb:kfree_skb", 1, false, nil},
		{"threads.data", "db-1", "cpu-clock:u", 2, false, nil},
	} {
		b, err := os.ReadFile(filepath.Join(testdata, c.name))
		if err != nil {
			t.Fatal(err)
		}
		host := append([]byte("\x40\x00\x00\x00"), c.host...)
		old := append([]byte("\x40\x00\x00\x00vm"), make([]byte, len(c.host)-len("vm"))...)
		if bytes.Count(b, old) != 1 {
			t.Fatalf("%s: no name of a host", c.name)
		}
		b = bytes.Replace(b, old, host, 1)
		if c.otherKernel {
			id := []byte("\x6e\xcd\x6e\xc2\x1e\xc6\x94\x16\xe5\x0a\x8a\xa6\x73\x7e\x50\x09\x01\xdd\xb4\x7a")
			if bytes.Count(b, id) == 0 {
				t.Fatalf("%s: no build ID of the kernel", c.name)
			}
			b = bytes.ReplaceAll(b, id, bytes.Repeat([]byte{0xab}, len(id)))
		}
		r := hostRecording{path: filepath.Join(dir, strconv.Itoa(i)+".data"), host: c.host, event: c.event,
			minute: deployment.Add(time.Duration(c.minute) * time.Minute), flags: c.flags}
		if err := os.WriteFile(r.path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		written := r.minute.Add(30 * time.Second) // the recordings last less
		if err := os.Chtimes(r.path, written, written); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// args returns arguments of gperf report for the recording.
func (r *hostRecording) args(args ...string) []string {
	return slices.Concat([]string{"report", "-i", r.path, "--kallsyms", filepath.Join(testdata, "kallsyms")}, r.flags,
		args)
}

// csv returns the table of gperf report, each row by the names of columns.
func (r *hostRecording) csv(t *testing.T, args ...string) (list []map[string]string) {
	t.Helper()
	out, _ := gperf(t, r.args(append([]string{"--format", "csv"}, args...)...)...)
	table, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table[1:] {
		m := map[string]string{"Event": r.event}
		for i, name := range table[0] {
			m[name] = row[i]
		}
		list = append(list, m)
	}
	return list
}

// answers are the results of queries by number, from 1. All cells are text.
type answers map[int][][]string

// numberText returns a number as text, the same for equal numbers.
func numberText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// sorted returns the rows of a table: by the values of rank, the largest first, and then by the text of the cells.
func sorted(of hostSums, row func(key []string, v float64) []string, limit int) (list [][]string) {
	keys := make([]string, 0, len(of))
	for k := range of {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	for _, k := range keys[:min(limit, len(keys))] {
		list = append(list, row(strings.Split(k, "\x00"), of[k]))
	}
	return list
}

// seconds appends a sum of ns in seconds.
func seconds(key []string, ns float64) []string { return append(key, numberText(ns/1e9)) }

// joinKey joins parts of a joinKey of hostSums.
func joinKey(parts ...string) string { return strings.Join(parts, "\x00") }

// functionOf returns the name of a function in gperf report as in rows: unnamed ones get the name of the DSO.
func functionOf(row map[string]string) string {
	_, name, _ := strings.Cut(row["Symbol"], "] ")
	if dso := row["Shared Object"]; strings.HasPrefix(name, "0x") {
		if strings.HasPrefix(dso, "[") {
			return dso
		}
		return "[" + dso + "]"
	}
	return name
}

// hostSums are sums by keys: parts joined by NUL.
type hostSums map[string]float64

// hostSets are distinct values by keys.
type hostSets map[string]map[string]bool

func (s hostSets) add(key, value string) {
	if s[key] == nil {
		s[key] = map[string]bool{}
	}
	s[key][value] = true
}

// count returns the number of values of a key, as text.
func (s hostSets) count(parts []string) string { return numberText(float64(len(s[joinKey(parts...)]))) }

// fleetSums adds up the values that gperf report prints for recordings: ns by default.
type fleetSums struct {
	self, total, groups, callers, busy, hosts, kernel hostSums
	before, after                                     hostSums // by function
	drops, places                                     hostSums // samples
	builds                                            hostSums
	placeHosts, buildHosts, buildMinutes              hostSets
}

func newFleetSums() *fleetSums {
	return &fleetSums{self: hostSums{}, total: hostSums{}, groups: hostSums{}, callers: hostSums{}, busy: hostSums{},
		hosts: hostSums{}, kernel: hostSums{}, before: hostSums{}, after: hostSums{}, drops: hostSums{},
		places: hostSums{}, builds: hostSums{}, placeHosts: hostSets{}, buildHosts: hostSets{},
		buildMinutes: hostSets{}}
}

// fleetAnswers returns the answers of gperf report to the questions of docs/fleet.md.
func fleetAnswers(t *testing.T, list []hostRecording) answers {
	t.Helper()
	s := newFleetSums()
	for i := range list {
		s.addFunctions(t, &list[i])
		s.addOthers(t, &list[i])
		s.addDrops(t, &list[i])
	}
	return s.answers()
}

// value returns a number of a table.
func value(t *testing.T, row map[string]string, column string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil {
		t.Fatalf("column %s of gperf report: %v", column, err)
	}
	return v
}

// addFunctions adds the CPU time of functions.
func (s *fleetSums) addFunctions(t *testing.T, r *hostRecording) {
	minute, dsos := r.minute.Format(time.DateTime), recordedDSOs(t, r.path)
	for _, row := range r.csv(t, "--no-children", "--sort", "dso,symbol") {
		if row["Event"] != "cpu-clock" {
			continue
		}
		ns, dso, function := value(t, row, "Period"), dsos[row["Shared Object"]], functionOf(row)
		s.self[joinKey(function, dso.name)] += ns
		if r.minute.Before(deployment) {
			s.before[function] += ns
		} else {
			s.after[function] += ns
		}
		s.hosts[r.host] += ns
		s.busy[joinKey(minute, r.host)] += ns
		if strings.HasPrefix(row["Symbol"], "[k]") {
			s.kernel[r.host] += ns
		}
		if dso.id != "" {
			build := joinKey(dso.name, dso.id)
			s.builds[build] += ns
			s.buildHosts.add(build, r.host)
			s.buildMinutes.add(build, joinKey(r.host, minute))
		}
	}
}

// addOthers adds the CPU time of functions with callees, of cgroups and of callers.
func (s *fleetSums) addOthers(t *testing.T, r *hostRecording) {
	for _, row := range r.csv(t, "--children", "--sort", "symbol") {
		if name := functionOf(row); row["Event"] == "cpu-clock" && !strings.HasPrefix(name, "[") {
			s.total[name] += value(t, row, "Children period")
		}
	}
	for _, row := range r.csv(t, "--no-children", "--sort", "cgroup") {
		if strings.HasPrefix(row["Event"], "cpu-clock") {
			s.groups[joinKey(r.host, strings.TrimPrefix(row["Cgroup"], "N/A"))] += value(t, row, "Period")
		}
	}
	for caller, ns := range callersOf(t, r, "schedule") {
		s.callers[caller] += ns
	}
}

func (s *fleetSums) addDrops(t *testing.T, r *hostRecording) {
	if r.event != "skb:kfree_skb" {
		return
	}
	for _, row := range r.csv(t, "--no-children", "--sort", "location,reason") {
		place := joinKey(row["location"], row["reason"])
		s.drops[joinKey(r.minute.Format(time.DateTime), r.host, row["reason"])] += value(t, row, "Samples")
		s.places[place] += value(t, row, "Samples")
		s.placeHosts.add(place, r.host)
	}
}

func (s *fleetSums) answers() answers {
	a := answers{
		1: sorted(s.self, seconds, 20),
		2: sorted(s.total, seconds, 20),
		4: sorted(s.places, func(k []string, v float64) []string {
			return append(k, numberText(v), s.placeHosts.count(k))
		}, 20),
		5: s.changes(),
		7: sorted(s.groups, seconds, 20),
		9: sorted(s.callers, seconds, 20),
	}
	for _, k := range slices.Sorted(maps.Keys(s.drops)) {
		a[3] = append(a[3], append(strings.Split(k, "\x00"), numberText(s.drops[k])))
	}
	perMinute := hostSums{}
	for k, ns := range s.builds {
		perMinute[k] = ns / 1e9 / float64(len(s.buildMinutes[k]))
	}
	a[6] = sorted(perMinute, func(k []string, v float64) []string {
		return append(k, s.buildHosts.count(k), numberText(v))
	}, 20)
	share := hostSums{}
	for host, ns := range s.hosts {
		share[host] = 100 * s.kernel[host] / ns
	}
	a[8] = sorted(share, func(k []string, v float64) []string {
		return append(k, numberText(s.hosts[k[0]]/1e9), numberText(v))
	}, 20)
	for _, k := range slices.Sorted(maps.Keys(s.busy)) {
		a[10] = append(a[10], append(strings.Split(k, "\x00"), numberText(s.busy[k]/60e9)))
	}
	return a
}

// changes returns the shares of functions before and after the deployment, those that grew most first.
func (s *fleetSums) changes() [][]string {
	before, after := 0.0, 0.0
	for _, ns := range s.before {
		before += ns
	}
	for _, ns := range s.after {
		after += ns
	}
	change := hostSums{}
	for _, part := range []hostSums{s.before, s.after} {
		for f := range part {
			change[f] = 100*s.after[f]/after - 100*s.before[f]/before
		}
	}
	return sorted(change, func(k []string, _ float64) []string {
		return append(k, numberText(100*s.before[k[0]]/before), numberText(100*s.after[k[0]]/after))
	}, 20)
}

// recordedDSO is the path of a DSO and the build ID, "" if it was not recorded.
type recordedDSO struct{ name, id string }

// recordedDSOs returns the DSOs of a recording by the names in gperf report, as gperf buildid-list prints them.
func recordedDSOs(t *testing.T, path string) map[string]recordedDSO {
	t.Helper()
	out, _ := gperf(t, "buildid-list", "-i", path)
	list := map[string]recordedDSO{}
	for line := range strings.Lines(out) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "/")
		if ok {
			name = "/" + name
		} else {
			id, name, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		list[filepath.Base(name)] = recordedDSO{name, strings.TrimSpace(id)}
	}
	return list
}

// callersOf returns the periods of samples of cpu-clock by the caller of a function: gperf report --format json lists
// them.
func callersOf(t *testing.T, r *hostRecording, function string) hostSums {
	t.Helper()
	out, _ := gperf(t, r.args("--format", "json")...)
	found := hostSums{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var s struct {
			Event  string
			Period float64
			Stack  []struct{ Function, DSO string }
		}
		if err := dec.Decode(&s); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		for i, f := range s.Stack {
			if s.Event != "cpu-clock" || f.Function != function {
				continue
			}
			caller := ""
			if i+1 < len(s.Stack) {
				f := s.Stack[i+1]
				caller = cmp.Or(f.Function, "["+filepath.Base(f.DSO)+"]")
			}
			found[caller] += s.Period
			break
		}
	}
}

// compareAnswers compares a database's answers with gperf report.
func compareAnswers(t *testing.T, queries []fleetQuery, got, want answers) {
	t.Helper()
	for i, q := range queries {
		if len(want[i+1]) < 2 {
			t.Errorf("%d. %s: gperf report has only the rows %v", i+1, q.title, want[i+1])
		}
		g, w := got[i+1], want[i+1]
		if i+1 == 2 { // gperf report counts functions without names by address
			g = slices.DeleteFunc(slices.Clone(g), func(row []string) bool { return strings.HasPrefix(row[0], "[") })
			w = w[:min(len(g), len(w))]
		}
		if !slices.EqualFunc(g, w, slices.Equal) {
			t.Errorf("%d. %s\nthe database:  %v\ngperf report: %v", i+1, q.title, g, w)
		}
	}
}

// cellText returns a value of a database's JSON as text.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return numberText(v)
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return numberText(f)
		}
		return strings.TrimSuffix(v, "+00")
	}
	return "not a cell"
}

// duckdbFolder returns the folder with node_modules that contains the npm package @duckdb/node-api: $GPERF_DUCKDB, or
// one below the user's cache. It skips the test if there is none.
func duckdbFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GPERF_DUCKDB")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		dir = filepath.Join(cache, "gperf-test")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@duckdb/node-api")); err != nil {
		t.Skipf("DuckDB is not installed: npm install --prefix ~/.cache/gperf-test @duckdb/node-api; GPERF_DUCKDB "+
			"names another folder: %v", err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed (package nodejs)")
	}
	return dir
}

// duckdbProgram reads statements from standard input, and prints the rows of each as JSON.
const duckdbProgram = `
const { DuckDBInstance } = require('@duckdb/node-api');
(async () => {
  const c = await (await DuckDBInstance.create(':memory:')).connect();
  const results = [];
  for (const q of JSON.parse(require('fs').readFileSync(0, 'utf8')))
    results.push((await c.runAndReadAll(q)).getRowsJson());
  console.log(JSON.stringify(results));
})().catch(e => { console.error(String(e)); process.exit(1); });
`

// duckdb runs statements in a directory, and returns the rows of each.
func duckdb(t *testing.T, dir string, statements []string) (results [][][]any) {
	t.Helper()
	in, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "-e", duckdbProgram)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(duckdbFolder(t), "node_modules"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("DuckDB: %v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatal(err)
	}
	return results
}

// TestFleetDuckDB: DuckDB reads the files as they are, and answers the questions of docs/fleet.md as gperf report does.
func TestFleetDuckDB(t *testing.T) {
	duckdbFolder(t)
	list := fleetFiles(t)
	view, queries := fleetQueries(t)
	want := fleetAnswers(t, list)
	for _, kind := range rowNames {
		dir := t.TempDir()
		for i, r := range list {
			path := filepath.Join(dir, strconv.Itoa(i)+".parquet")
			gperf(t, r.args("--format", "parquet", "--rows", kind, "-o", path)...)
		}
		statements := []string{"SET TimeZone = 'UTC'", view}
		for _, q := range queries {
			statements = append(statements, q.duckdb)
		}
		got := answers{}
		for i, rows := range duckdb(t, dir, statements)[2:] {
			for _, row := range rows {
				var cells []string
				for _, v := range row {
					cells = append(cells, cellText(v))
				}
				got[i+1] = append(got[i+1], cells)
			}
		}
		t.Log("rows of", kind)
		compareAnswers(t, queries, got, want)
	}
}
