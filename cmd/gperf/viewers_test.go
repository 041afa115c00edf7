package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// totals is the sums of the periods of an event's samples by function, in which they were taken (self), and which they
// were taken in or below (total).
type totals struct {
	self, total map[string]uint64
	all         uint64
}

func newTotals() *totals { return &totals{self: map[string]uint64{}, total: map[string]uint64{}} }

// add adds samples with a stack, outermost first.
func (s *totals) add(stack []string, weight uint64) {
	s.all += weight
	if len(stack) > 0 {
		s.self[stack[len(stack)-1]] += weight
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(stack))) {
		s.total[name] += weight
	}
}

// viewed is a recording whose formats are compared with its report, and an event of it.
type viewed struct {
	name, event string
	args        []string
	selfOnly    bool // after calls that do not return, report names callers otherwise
}

// viewedRecordings are some with several events and threads.
func viewedRecordings(t *testing.T) []viewed {
	symbols := []string{"--kallsyms", filepath.Join(root, "testdata/kallsyms"), "--symfs", t.TempDir()}
	var list []viewed
	for _, v := range []viewed{{name: "two.data", event: "cpu-clock"},
		{name: "two.data", event: "sched:sched_switch"}, {name: "drops.data", event: "skb:kfree_skb"},
		{name: "spans.data", event: "span:syscalls"}, {name: "answers.data", event: "raw_syscalls:sys_enter"},
		{name: "threads.data", event: "cpu-clock:u"}} {
		v.args = append([]string{"-i", testRecording(v.name)}, symbols...)
		list = append(list, v)
	}
	return list
}

// csvRows returns the rows of the table of report, by the names of their columns.
func csvRows(t *testing.T, args ...string) (rows []map[string]string) {
	t.Helper()
	text := mustGperf(t, append([]string{"report", "--format", "csv"}, args...)...)
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, one := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = one[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// reported returns the totals of an event by report.
func (v viewed) reported(t *testing.T) *totals {
	t.Helper()
	s := newTotals()
	for _, row := range csvRows(t, append([]string{"--sort", "symbol", "--children", "--no-inline"}, v.args...)...) {
		if row["Event"] != "" && row["Event"] != v.event {
			continue
		}
		name := row["Symbol"][len("[.] "):]
		period := atoi(t, row["Period"])
		s.all += period
		s.self[name] += period
		s.total[name] += atoi(t, cmp.Or(row["Children period"], row["Period"]))
	}
	if len(s.self) == 0 {
		t.Fatalf("no rows of %s", v.event)
	}
	return s
}

func atoi(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compare compares totals with report's. Functions without names have others there.
func (v viewed) compare(t *testing.T, what string, got *totals) {
	t.Helper()
	want := v.reported(t)
	if got.all != want.all {
		t.Errorf("%s: %s: the sum is %d, in report %d", what, v.event, got.all, want.all)
	}
	for _, side := range []struct {
		name      string
		got, want map[string]uint64
	}{{"self", got.self, want.self}, {"total", got.total, want.total}} {
		if v.selfOnly && side.name != "self" {
			continue
		}
		for name, n := range side.want {
			if !strings.HasPrefix(name, "0x") && side.got[name] != n {
				t.Errorf("%s: %s: %s of %s is %d, in report %d", what, v.event, side.name, name, side.got[name], n)
			}
		}
		for name, n := range side.got {
			if _, ok := side.want[name]; !ok && n > 0 && !unnamed.MatchString(name) {
				t.Errorf("%s: %s: report has no %s", what, v.event, name)
			}
		}
	}
}

// written returns the file of a format.
func (v viewed) written(t *testing.T, format, file string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	mustGperf(t, append([]string{"report", "--format", format, "--no-inline", "-o", path}, v.args...)...)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestViewersTotals compares the formats for other tools with report.
func TestViewersTotals(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		t.Run(v.name+" "+v.event, func(t *testing.T) {
			fromJSON := newTotals()
			for _, s := range sampleObjects(t, append(v.args, "--no-inline")...) {
				if s.Event == v.event {
					fromJSON.add(s.names(), s.Period)
				}
			}
			v.compare(t, "json", fromJSON)
			v.compare(t, "speedscope", speedscopeTotals(t, v))
			v.compare(t, "firefox", firefoxTotals(t, v))
			v.compare(t, "perfetto", perfettoTotals(t, v))
			v.compare(t, "pprof", pprofTotals(t, v))
		})
	}
}

// sampleType returns pprof's type of an event.
func sampleType(event string) string {
	if strings.HasPrefix(event, "cpu-clock") {
		return "cpu"
	}
	return event
}

// pprofTotals returns the sums that go tool pprof prints for an event.
func pprofTotals(t *testing.T, v viewed) *totals {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.pb.gz")
	mustGperf(t, append([]string{"report", "--format", "pprof", "--no-inline", "-o", path}, v.args...)...)
	s := newTotals()
	top := goToolPprof(t, "-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0", "-unit=ns",
		"-sample_index="+sampleType(v.event), path)
	for line := range strings.Lines(top) {
		words := strings.Fields(line)
		if len(words) < 6 || !strings.HasSuffix(words[1], "%") {
			continue
		}
		name := strings.TrimSuffix(strings.Join(words[5:], " "), " (inline)")
		flat := pprofNumber(t, words[0])
		s.all, s.self[name], s.total[name] = s.all+flat, s.self[name]+flat, s.total[name]+pprofNumber(t, words[3])
	}
	return s
}

func pprofNumber(t *testing.T, text string) uint64 {
	t.Helper()
	return atoi(t, strings.TrimSuffix(text, "ns"))
}

// TestScenarioViewers: waits, their wakers and spans have their durations in the formats for other tools.
func TestScenarioViewers(t *testing.T) {
	needTracepoints(t)
	dir := t.TempDir()
	mustRecord(t, dir, "--off-cpu", "--waker", "-g", "-e", "cpu-clock", "-F", "999", "-e", "span:syscalls", "--",
		"sh", "-c", "for i in 1 2 3; do sleep 0.02; ls -R /etc | sort | tail -1; done")
	v := viewed{args: []string{"-i", filepath.Join(dir, "perf.data")}, selfOnly: true}
	for _, v.event = range []string{"offcpu-time", "span:syscalls"} {
		v.compare(t, "speedscope", speedscopeTotals(t, v))
		v.compare(t, "firefox", firefoxTotals(t, v))
		v.compare(t, "perfetto", perfettoTotals(t, v))
	}
	want := map[string]int{} // waits: thread, duration and waker
	for _, s := range sampleObjects(t, v.args...) {
		if s.Event == "offcpu-time" {
			want[fmt.Sprint(s.TID, " ", s.Period, " ", s.WakerComm)]++
		}
	}
	waits := 0
	f := readFirefox(t, v.written(t, "firefox", "a.json"))
	for i := range f.Threads {
		th := &f.Threads[i]
		tid, _, _ := strings.Cut(th.TID, ".")
		for n, data := range th.Markers.Data {
			if data["type"] != "offcpu-time" {
				continue
			}
			waits++
			waker, _ := data["waker_comm"].(string)
			length := nanos(t, *th.Markers.EndTime[n]) - nanos(t, th.Markers.StartTime[n])
			want[fmt.Sprint(tid, " ", length, " ", waker)]--
		}
	}
	for key, n := range want {
		if n != 0 {
			t.Errorf("%d waits %s too few", n, key)
		}
	}
	slices := 0
	for _, p := range readPerfetto(t, v.written(t, "perfetto", "a.pftrace")) {
		if p.has("track_event") && p.sub("track_event").text("name") == "offcpu-time" {
			slices++
		}
	}
	if slices != waits || waits < 3 {
		t.Errorf("%d waits in perfetto, %d in firefox", slices, waits)
	}
}

// TestViewersMerge: the times of several recordings are on one axis, by the time of day.
func TestViewersMerge(t *testing.T) {
	v := viewed{args: []string{"-i", testRecording("two.data"), "-i", testRecording("drops.data"), "--symfs",
		t.TempDir()}}
	f := readFirefox(t, v.written(t, "firefox", "a.json"))
	samples, pids := 0, map[string]bool{}
	for i := range f.Threads {
		f.checkTables(t, &f.Threads[i])
		samples += f.Threads[i].Samples.Length
		pids[f.Threads[i].PID] = true
	}
	want := len(sampleObjects(t, v.args...))
	if samples != want || len(pids) < 2 {
		t.Errorf("%d samples of %d, processes %v", samples, want, pids)
	}
	perfetto := 0
	for _, p := range readPerfetto(t, v.written(t, "perfetto", "a.pftrace")) {
		if p.has("perf_sample") {
			perfetto++
		}
	}
	if perfetto != want {
		t.Errorf("perfetto: %d samples of %d", perfetto, want)
	}
}

// names returns the functions of a sample, outermost first.
func (s *sampleObject) names() (l []string) {
	for _, f := range slices.Backward(s.Stack) {
		l = append(l, cmp.Or(f.Function, "["+f.DSO+"]"))
	}
	return l
}

// speedscopeFile is a file of Speedscope.
type speedscopeFile struct {
	Shared struct {
		Frames []struct{ Name string }
	}
	Profiles []struct {
		Type, Name, Unit string
		EndValue         uint64
		Events           []struct {
			Type  string
			Frame int
			At    uint64
		}
	}
}

// speedscopeStack is a stack of a profile, and from when to when it was the current one.
type speedscopeStack struct {
	stack    string // outermost first
	from, to uint64
}

// stacks returns the stacks that the events of a profile describe, except moments without functions.
func (f *speedscopeFile) stacks(t *testing.T, profile int) (list []speedscopeStack) {
	t.Helper()
	p := f.Profiles[profile]
	var open []int
	last := uint64(0)
	names := func() string {
		var l []string
		for _, id := range open {
			l = append(l, f.Shared.Frames[id].Name)
		}
		return strings.Join(l, ";")
	}
	for _, e := range p.Events {
		if e.At < last || e.At > p.EndValue {
			t.Fatalf("%s: an event at %d after %d of %d", p.Name, e.At, last, p.EndValue)
		}
		if e.At > last && len(open) > 0 {
			list = append(list, speedscopeStack{names(), last, e.At})
		}
		last = e.At
		switch n := len(open) - 1; {
		case e.Type == "O":
			open = append(open, e.Frame)
		case n < 0 || open[n] != e.Frame:
			t.Fatalf("%s: leaves %d of %v", p.Name, e.Frame, open)
		default:
			open = open[:n]
		}
	}
	if len(open) > 0 || p.Type != "evented" {
		t.Errorf("%s: %d functions are open at the end of a profile %q", p.Name, len(open), p.Type)
	}
	return list
}

func readSpeedscope(t *testing.T, b []byte) (f speedscopeFile) {
	t.Helper()
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func speedscopeTotals(t *testing.T, v viewed) *totals {
	t.Helper()
	f := readSpeedscope(t, v.written(t, "speedscope", "a.json"))
	s := newTotals()
	for i, p := range f.Profiles {
		if !strings.HasPrefix(p.Name, v.event+" ") {
			continue
		}
		for _, one := range f.stacks(t, i) {
			s.add(strings.Split(one.stack, ";"), one.to-one.from)
		}
	}
	return s
}

// firefoxFile is a profile of Firefox Profiler.
type firefoxFile struct {
	Meta struct {
		StartTime    float64
		MarkerSchema []struct {
			Name   string
			Fields []struct{ Key, Format string }
		}
		Categories []struct {
			Name, Color   string
			Subcategories []string
		}
		Version int `json:"preprocessedProfileVersion"`
	}
	Libs   []struct{ Name, Path, BreakpadID, CodeID string }
	Shared struct {
		StringArray []string
		Sources     struct {
			Length   int
			Filename []int
		}
	}
	Threads []firefoxThread
}

type firefoxThread struct {
	Name, PID, TID, ProcessName string
	Samples                     struct {
		Length     int
		Stack      []*int
		Time       []json.Number
		Weight     []json.Number
		WeightType string
	}
	Markers struct {
		Length    int
		Name      []int
		StartTime []json.Number
		EndTime   []*json.Number
		Phase     []int
		Category  []int
		Data      []map[string]any
	}
	StackTable struct {
		Length int
		Prefix []*int
		Frame  []int
	}
	FrameTable struct {
		Length                                   int
		Func, Category, Subcategory, InlineDepth []int
		NativeSymbol, Line                       []*int
		Address                                  []int64
	}
	FuncTable struct {
		Length         int
		Name, Resource []int
		Source         []*int
	}
	ResourceTable struct {
		Length          int
		Lib, Name, Type []int
	}
	NativeSymbols struct {
		Length         int
		LibIndex, Name []int
	}
}

func readFirefox(t *testing.T, b []byte) (f firefoxFile) {
	t.Helper()
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// nanos returns a number of ms in ns.
func nanos(t *testing.T, ms json.Number) uint64 {
	t.Helper()
	whole, rest, _ := strings.Cut(string(ms), ".")
	return atoi(t, whole+(rest + "000000")[:6])
}

// stack returns the functions of a stack, outermost first.
func (f *firefoxFile) stack(th *firefoxThread, id *int) (l []string) {
	for ; id != nil; id = th.StackTable.Prefix[*id] {
		fn := th.FrameTable.Func[th.StackTable.Frame[*id]]
		l = append(l, f.Shared.StringArray[th.FuncTable.Name[fn]])
	}
	slices.Reverse(l)
	return l
}

// isOf reports whether a thread of the profile has the samples of an event.
func (th *firefoxThread) isOf(event string) bool {
	return !strings.Contains(th.Name, " (") || strings.HasSuffix(th.Name, " ("+event+")")
}

func firefoxTotals(t *testing.T, v viewed) *totals {
	t.Helper()
	f := readFirefox(t, v.written(t, "firefox", "a.json.gz"))
	s := newTotals()
	for i := range f.Threads {
		th := &f.Threads[i]
		if !th.isOf(v.event) {
			continue
		}
		for n, stack := range th.Samples.Stack {
			weight := nanos(t, th.Samples.Weight[n])
			if th.Samples.WeightType != "tracing-ms" {
				weight = atoi(t, string(th.Samples.Weight[n]))
			}
			s.add(f.stack(th, stack), weight)
		}
	}
	return s
}

// TestSpeedscope checks that profiles have the samples of --format json in order: samples of spans and of clocks at
// the times at which they ended.
func TestSpeedscope(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		t.Run(v.name, func(t *testing.T) {
			f := readSpeedscope(t, v.written(t, "speedscope", "a.json"))
			want := map[string][]speedscopeStack{}
			origin := uint64(math.MaxUint64)
			for _, s := range sampleObjects(t, append(v.args, "--no-inline")...) {
				end := s.end()
				key := fmt.Sprint(s.Event, " ", s.TID)
				want[key] = append(want[key], speedscopeStack{strings.Join(s.names(), ";"), end - s.Period, end})
				origin = min(origin, end-min(s.span(), end), s.Time)
				if strings.HasPrefix(s.Event, "cpu-clock") {
					origin = min(origin, end-s.Period)
				}
			}
			for i, p := range f.Profiles {
				words := strings.Fields(strings.ReplaceAll(p.Name, "/", " "))
				key := words[0] + " " + words[len(words)-1]
				compareSpeedscope(t, p.Name, f.stacks(t, i), want[key], origin, p.Unit == "nanoseconds")
				delete(want, key)
			}
			if len(want) > 0 {
				t.Errorf("missing: %v", slices.Collect(maps.Keys(want)))
			}
		})
	}
}

// span returns the duration of the sample's span.
func (s *sampleObject) span() uint64 {
	duration, _ := s.Fields["duration"].(float64)
	return uint64(duration)
}

// end returns when the sample's span ended, or when it was taken.
func (s *sampleObject) end() uint64 {
	if start, ok := s.Fields["start"].(float64); ok {
		return uint64(start) + s.span()
	}
	return s.Time
}

// unnamed matches names of functions without a symbol, which JSON leaves out.
var unnamed = regexp.MustCompile(`\[[^;]*\]|[^;]*\+0x[0-9a-f]+`)

// compareSpeedscope compares the stacks of a profile with samples. Adjacent equal stacks are one in both.
func compareSpeedscope(t *testing.T, name string, got, samples []speedscopeStack, origin uint64, timed bool) {
	t.Helper()
	var want []speedscopeStack
	at := uint64(0)
	for _, s := range samples {
		length := s.to - s.from
		if timed {
			at = max(at, s.from-min(origin, s.from))
		}
		want = append(want, speedscopeStack{s.stack, at, at + length})
		at += length
	}
	merge := func(list []speedscopeStack) string {
		var merged []speedscopeStack
		for _, s := range list {
			s.stack = unnamed.ReplaceAllString(s.stack, "?")
			switch n := len(merged) - 1; {
			case s.from == s.to:
			case n >= 0 && merged[n].to == s.from && merged[n].stack == s.stack:
				merged[n].to = s.to
			default:
				merged = append(merged, s)
			}
		}
		return strings.ReplaceAll(fmt.Sprint(merged), "} {", "}\n{")
	}
	if g, w := merge(got), merge(want); g != w {
		t.Errorf("%s:\n%.3000s\nwant\n%.3000s", name, g, w)
	}
}

// TestFirefoxProfile checks the tables of profiles by the types that Firefox Profiler documents: indexes are valid,
// callers precede callees, columns are as long as their tables; and markers have the fields and durations of samples.
func TestFirefoxProfile(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		t.Run(v.name, func(t *testing.T) {
			f := readFirefox(t, v.written(t, "firefox", "a.json"))
			if f.Meta.Version != 58 || f.Meta.Categories[0].Color != "grey" || f.Meta.StartTime <= 0 {
				t.Errorf("meta is %+v", f.Meta)
			}
			for _, c := range f.Meta.Categories {
				if len(c.Subcategories) == 0 || c.Subcategories[0] != "Other" {
					t.Errorf("subcategories of %s are %q", c.Name, c.Subcategories)
				}
			}
			markers := 0
			for i := range f.Threads {
				th := &f.Threads[i]
				f.checkTables(t, th)
				markers += th.Markers.Length
			}
			f.checkMarkers(t, v, markers)
		})
	}
}

// checkTables checks the tables of a thread.
func (f *firefoxFile) checkTables(t *testing.T, th *firefoxThread) {
	t.Helper()
	index := func(what string, list []int, n int) {
		for _, i := range list {
			if i < -1 || i >= n || i < 0 && what != "func.resource" {
				t.Errorf("%s: %s: %d of %d", th.Name, what, i, n)
			}
		}
	}
	lengths := map[string][2]int{
		"samples.time": {len(th.Samples.Time), th.Samples.Length}, "samples.stack": {len(th.Samples.Stack), th.Samples.Length},
		"samples.weight": {len(th.Samples.Weight), th.Samples.Length},
		"stack.frame":    {len(th.StackTable.Frame), th.StackTable.Length},
		"stack.prefix":   {len(th.StackTable.Prefix), th.StackTable.Length},
		"frame.address":  {len(th.FrameTable.Address), th.FrameTable.Length},
		"frame.line":     {len(th.FrameTable.Line), th.FrameTable.Length},
		"frame.symbol":   {len(th.FrameTable.NativeSymbol), th.FrameTable.Length},
		"func.name":      {len(th.FuncTable.Name), th.FuncTable.Length},
		"func.source":    {len(th.FuncTable.Source), th.FuncTable.Length},
		"resource.lib":   {len(th.ResourceTable.Lib), th.ResourceTable.Length},
		"symbol.lib":     {len(th.NativeSymbols.LibIndex), th.NativeSymbols.Length},
		"markers.data":   {len(th.Markers.Data), th.Markers.Length},
		"markers.end":    {len(th.Markers.EndTime), th.Markers.Length},
		"sources":        {len(f.Shared.Sources.Filename), f.Shared.Sources.Length},
	}
	for what, n := range lengths {
		if n[0] != n[1] {
			t.Errorf("%s: %s has %d entries of %d", th.Name, what, n[0], n[1])
		}
	}
	for i, prefix := range th.StackTable.Prefix {
		if prefix != nil && *prefix >= i {
			t.Errorf("%s: stack %d has the caller %d", th.Name, i, *prefix)
		}
	}
	texts := len(f.Shared.StringArray)
	index("stack.frame", th.StackTable.Frame, th.FrameTable.Length)
	index("frame.func", th.FrameTable.Func, th.FuncTable.Length)
	index("frame.category", th.FrameTable.Category, len(f.Meta.Categories))
	index("func.name", th.FuncTable.Name, texts)
	index("func.resource", th.FuncTable.Resource, th.ResourceTable.Length)
	index("resource.lib", th.ResourceTable.Lib, len(f.Libs))
	index("resource.name", th.ResourceTable.Name, texts)
	index("symbol.lib", th.NativeSymbols.LibIndex, len(f.Libs))
	index("markers.name", th.Markers.Name, texts)
	last := uint64(0)
	for i, at := range th.Samples.Time {
		if now := nanos(t, at); now < last {
			t.Errorf("%s: sample %d is at %s, before the previous one", th.Name, i, at)
		} else {
			last = now
		}
	}
}

// checkMarkers compares the markers of a profile with the samples of tracepoints.
func (f *firefoxFile) checkMarkers(t *testing.T, v viewed, markers int) {
	t.Helper()
	want := map[string]int{}
	all := 0
	for _, s := range sampleObjects(t, v.args...) {
		if s.Fields == nil {
			continue
		}
		all++
		if _, ok := s.Fields["cpu"]; !ok && s.CPU != nil {
			s.Fields["cpu"] = *s.CPU
		}
		b, _ := json.Marshal(s.Fields)
		want[fmt.Sprint(s.Event, s.TID, string(b), s.span())]++
	}
	for i := range f.Threads {
		th := &f.Threads[i]
		tid, _, _ := strings.Cut(th.TID, ".")
		for n, data := range th.Markers.Data {
			event, cause := data["type"], data["cause"]
			delete(data, "type")
			delete(data, "cause")
			b, _ := json.Marshal(data)
			length := uint64(0)
			if end := th.Markers.EndTime[n]; end != nil {
				length = nanos(t, *end) - nanos(t, th.Markers.StartTime[n])
			}
			if (length > 0) != (th.Markers.Phase[n] == 1) || cause == nil {
				t.Errorf("a marker of %d ns has phase %d and the cause %v", length, th.Markers.Phase[n], cause)
			}
			want[fmt.Sprint(event, tid, string(b), length)]--
		}
	}
	for key, n := range want {
		if n != 0 {
			t.Errorf("%d markers %s too few", n, key)
		}
	}
	if markers != all {
		t.Errorf("%d markers of %d", markers, all)
	}
}

// TestCSV compares the columns and rows with the table's.
func TestCSV(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		for _, flags := range []string{"--sort comm,dso,symbol --no-children", "--sort symbol --children -g none",
			"--sort pid"} {
			args := append(strings.Fields(flags), v.args...)
			rows := csvRows(t, args...)
			table := mustGperf(t, append(strings.Fields("report -t| -n --show-total-period -q -g none"), args...)...)
			lines := slices.DeleteFunc(strings.Split(table, "\n"), func(s string) bool {
				return s == "" || s[0] == '#'
			})
			if len(rows) != len(lines) {
				t.Fatalf("%s %s: %d rows, %d in the table\n%s", v.name, flags, len(rows), len(lines), table)
			}
			for i, line := range lines {
				words := strings.Split(line, "|")
				last := strings.TrimSpace(words[len(words)-1])
				if got := slices.Collect(maps.Values(rows[i])); !slices.Contains(got, last) {
					t.Errorf("%s %s: row %d is %q, in the table %q", v.name, flags, i, got, words)
				}
				periods := 1 // the column after Samples
				for j, w := range words {
					if strings.HasSuffix(strings.TrimSpace(w), "%") {
						periods = j + 2
					}
				}
				if got := strings.TrimSpace(words[periods]); got != rows[i]["Period"] {
					t.Errorf("%s %s: the period of row %d is %s, in the table %s", v.name, flags, i,
						rows[i]["Period"], got)
				}
			}
		}
	}
	name := `a "b", c` + "\n" + `d`
	r := &recorder{attrs: 1}
	r.mmap(1, 0x1000, 0x1000, name)
	r.chain(1, 1, 0x1000)
	if rows := csvRows(t, "--sort", "dso", "--no-children", "-i", r.save(t)); rows[0]["Shared Object"] != name {
		t.Errorf("the DSO is %q", rows[0]["Shared Object"])
	}
}

// TestCSVOfSeveralEvents: events whose tables have different keys share the columns of the same name, and have no
// values in the columns of other events.
func TestCSVOfSeveralEvents(t *testing.T) {
	args := []string{"-i", testRecording("answers.data")}
	head, _, _ := strings.Cut(mustGperf(t, append([]string{"report", "--format", "csv"}, args...)...), "\n")
	const want = "Event,Overhead,Samples,Period,Syscall,Command,Shared Object,Symbol,bytes"
	if head != want {
		t.Errorf("the columns are %s, want %s", head, want)
	}
	own := map[string][]string{"raw_syscalls:sys_enter": {"Syscall"}, "raw_syscalls:sys_exit": {"Syscall"},
		"probe_libc:malloc": {"Command", "Shared Object", "Symbol", "bytes"}}
	for _, row := range csvRows(t, args...) {
		for _, key := range []string{"Syscall", "Command", "Shared Object", "Symbol", "bytes"} {
			if has := slices.Contains(own[row["Event"]], key); has != (row[key] != "") {
				t.Errorf("%s: %s is %q", row["Event"], key, row[key])
			}
		}
	}
}

// TestCSVDigits: a number has the digits that it needs, not those that fill a column.
func TestCSVDigits(t *testing.T) {
	rows := csvRows(t, "--sort", "symoff,cpu,socket", "--symfs", t.TempDir(), "-i", testRecording("threads.data"))
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	for _, row := range rows {
		if got := row["Symbol Offset"]; !regexp.MustCompile(`^\[\.\] 0x[0-9a-f]{16}$`).MatchString(got) {
			t.Errorf("the offset is %.60s", got)
		}
		if row["CPU"] != "-1" || row["Socket"] != "-1" {
			t.Errorf("CPU %s, socket %s", row["CPU"], row["Socket"])
		}
	}
}

// TestTextsAsUTF8: names that are no UTF-8 do not make files that other programs refuse.
func TestTextsAsUTF8(t *testing.T) {
	r := &recorder{attrs: 1}
	r.comm(1, "a\xffb")
	r.mmap(1, 0x1000, 0x1000, "/tmp/\xfec.so")
	r.chain(1, 2, 0x1000)
	path := r.save(t)
	for _, format := range []string{"pprof", "perfetto", "csv", "json", "speedscope", "firefox", "svg"} {
		text := mustGperf(t, "report", "--format", format, "--symfs", t.TempDir(), "-i", path)
		if format == "pprof" {
			z, err := gzip.NewReader(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		for _, name := range []string{"\xffb", "\xfec.so"} {
			if strings.Contains(text, name) {
				t.Errorf("%s has %q", format, name)
			}
		}
		if !strings.Contains(text, "\ufffdc.so") && !strings.Contains(text, `\ufffdc.so`) {
			t.Errorf("%s does not have the DSO", format)
		}
	}
}

// TestJQ: jq gives the numbers of report for five questions.
func TestJQ(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed (package jq)")
	}
	ask := func(args []string, program string) string {
		t.Helper()
		cmd := exec.Command(jq, "-s", "-r", program)
		cmd.Stdin = strings.NewReader(mustGperf(t, append([]string{"report", "--format", "json"}, args...)...))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("jq %s: %v\n%s", program, err, out)
		}
		return string(out)
	}
	symbols := []string{"--kallsyms", filepath.Join(root, "testdata/kallsyms"), "--symfs", t.TempDir()}
	for _, q := range []struct{ file, key, column, event, group string }{
		{"drops.data", "reason", "reason", "skb:kfree_skb", ".fields.reason"},                // why were packets dropped?
		{"two.data", "comm", "Command", "cpu-clock", ".comm"},                                // which program ran?
		{"spans.data", "cpu", "CPU", "span:syscalls", ".cpu|tostring"},                       // on which CPU?
		{"two.data", "symbol", "Symbol", "cpu-clock", `.stack[0]|(.function // "?")`},        // in which function?
		{"threads.data", "comm", "Command", "cpu-clock:u", ".comm"},                          // which thread?
		{"spans.data", "syscall", "Syscall", "span:syscalls", `.fields.id|tostring`},         // which system calls took how long?
		{"answers.data", "comm", "Command", "raw_syscalls:sys_enter", `.comm`},               // who makes system calls?
		{"answers.data", "symbol", "Symbol", "probe_libc:malloc", `.stack[0].function//"?"`}, // where does it allocate?
	} {
		args := append([]string{"-i", testRecording(q.file), "--no-inline"}, symbols...)
		answer := ask(args, fmt.Sprintf(`map(select(.event == %q)) | group_by(%s)[]
			| "\(.[0]|%s)\t\(length)\t\(map(.period)|add)"`, q.event, q.group, q.group))
		want := map[string]int{} // numbers of samples and periods
		for _, row := range csvRows(t, append([]string{"--no-children", "--sort", q.key}, args...)...) {
			if row["Event"] == "" || row["Event"] == q.event {
				name := strings.TrimPrefix(strings.TrimPrefix(row[q.column], "[k] "), "[.] ")
				if strings.HasPrefix(name, "0x") {
					name = "?"
				}
				want[name+"\t"+row["Samples"]+"\t"+row["Period"]]++
			}
		}
		if q.key == "syscall" { // JSON has their numbers
			byNumbers := map[string]int{}
			for key := range want {
				byNumbers[key[strings.IndexByte(key, '\t'):]] += want[key]
			}
			want = byNumbers
		}
		got := map[string]int{}
		for line := range strings.Lines(answer) {
			line = strings.TrimSpace(line)
			if q.key == "syscall" {
				line = line[strings.IndexByte(line, '\t'):]
			}
			got[line]++
		}
		if !maps.Equal(got, want) && !sameUnnamed(got, want) || len(got) == 0 {
			t.Errorf("%s by %s: jq has %v, report %v", q.file, q.key, got, want)
		}
	}
}

// sameUnnamed compares the rows of names; report has a row for each address without one.
func sameUnnamed(a, b map[string]int) bool {
	named := func(m map[string]int) map[string]int {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(key string, _ int) bool { return strings.HasPrefix(key, "?") })
		return m
	}
	return maps.Equal(named(a), named(b)) && len(named(a)) > 0
}

// TestSVG checks that the picture is XML, has the totals of report, and that names stay text.
func TestSVG(t *testing.T) {
	for _, v := range viewedRecordings(t) {
		type group struct {
			Class string  `xml:"class,attr"`
			Name  string  `xml:"data-name,attr"`
			Width float64 `xml:"data-w,attr"`
			Depth int     `xml:"data-depth,attr"`
			Title string  `xml:"title"`
		}
		var svg struct {
			Events []struct {
				Texts  []string `xml:"text"`
				Frames []group  `xml:"g"`
			} `xml:"g"`
		}
		if err := xml.Unmarshal(v.written(t, "svg", "a.svg"), &svg); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		want := v.reported(t)
		for _, e := range svg.Events {
			if e.Texts[0] != "Flame Graph: "+v.event {
				continue
			}
			sum, leaves := 0.0, map[string]float64{}
			for _, f := range e.Frames {
				if f.Depth == 1 {
					sum += f.Width
				}
				leaves[f.Name] += f.Width
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: the threads are %g of all", v.name, sum)
			}
			for name, n := range want.total {
				share := float64(n) / float64(want.all)
				if !strings.HasPrefix(name, "0x") && share > 0.001 && leaves[name] < share-1e-9 {
					t.Errorf("%s: %s is %g of all, in report %g", v.name, name, leaves[name], share)
				}
			}
		}
	}
	r := &recorder{attrs: 1}
	r.comm(1, "</title><x>\x01")
	r.chain(1, 1, 0x1000)
	svg := mustGperf(t, "report", "--format", "svg", "-i", r.save(t))
	if strings.Contains(svg, "<x>") || strings.Contains(svg, "\x01") || !strings.Contains(svg, "&lt;x&gt;") {
		t.Errorf("a name is markup:\n%s", svg)
	}
}

// TestViewersWrongUse: an empty recording is an error that says so, and wrong flags are refused.
func TestViewersWrongUse(t *testing.T) {
	empty := (&recorder{attrs: 1}).save(t)
	for _, format := range []string{"speedscope", "firefox", "perfetto", "svg", "csv"} {
		if r := runGperf(t, "report", "--format", format, "-i", empty); r.code == exitOK || !strings.Contains(r.stderr,
			"no samples") {
			t.Errorf("%s: exit code %d\n%s", format, r.code, r.stderr)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"report --format csv --tasks", "--tasks is for --format text"},
		{"report --format csv --by comm", "--by is for"},
		{"script --format csv", "use text, folded, pprof, flamegraph, svg, speedscope, firefox, perfetto, json or pcapng"},
		{"report --format tsv", "json, pcapng, csv or parquet"},
		{"report --format firefox --sort comm", "--sort is for"},
	} {
		args := append(strings.Fields(c.args), "-i", testRecording("drops.data"))
		if r := runGperf(t, args...); r.code != exitUsage || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", c.args, r.code, c.want, r.stderr)
		}
	}
}
