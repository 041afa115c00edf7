package format_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/format"
	"gperf/format/tracepoint"
)

// The build-ID lists of quipper's recordings contain the BUILD_ID sections.
func TestCorpusBuildIDs(t *testing.T) {
	needCorpus(t)
	for _, name := range []string{"branch-4.14", "branch_stack_spec", "ctx_switch_namespaces-4.14",
		"group_desc-4.14", "hybrid_topology",
		"intel_pt-4.14", "lost_samples-4.4", "proc.map.timeout-3.18", "systemwide.1-3.8", "throttle-3.8", "weight_struct"} {
		t.Run(name, func(t *testing.T) {
			ids, err := openCorpus(t, "quipper.perf.data."+name).BuildIDs()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, id := range ids {
				got = append(got, fmt.Sprintf("%x %s", padded(id.BuildID), id.Filename))
			}
			want := strings.Split(strings.TrimSpace(
				string(readCorpus(t, expectedDir+"/quipper", "perf.data."+name+".buildids"))), "\n")
			slices.Sort(got)
			slices.Sort(want)
			got = slices.Compact(got) // throttle-3.8 contains its vdso five times
			if !slices.Equal(got, want) {
				t.Errorf("build IDs\n%s\nquipper has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

var perfparserHead = regexp.MustCompile(`(?m)^\S.*\t(\d+)\t(\d+)\t(\d+)\.(\d{9})\n(?:\t(\S+): (\d+)\n)?`)

// Perfparser (Hotspot, Qt Creator) lists the samples in time order. The test ignores its
// stacks, which need the recorded programs, and its thread names, which are the last of
// each thread.
func TestCorpusPerfparser(t *testing.T) {
	needCorpus(t)
	for name, n := range map[string]int{"perf.data": 45, "perf.data.zstd": 34, "perf.lbr.data": 29} {
		t.Run(name, func(t *testing.T) {
			f := openCorpus(t, "perfparser.vector_static_gcc."+name)
			want := perfparserHead.FindAllStringSubmatch(
				string(readCorpus(t, expectedDir+"/perfparser", "vector_static_gcc."+name+".expected.txt")), -1)
			samples := samplesOf(t, f)
			if len(samples) != n || len(want) != n {
				t.Fatalf("%d samples, perfparser has %d; they are %d", len(samples), len(want), n)
			}
			for i, s := range samples {
				got := fmt.Sprintf("%d %d %d.%09d", s.PID, s.TID, s.Time/1e9, s.Time%1e9)
				w := fmt.Sprintf("%s %s %s.%s", want[i][1], want[i][2], want[i][3], want[i][4])
				if want[i][5] != "" {
					got += fmt.Sprintf(" %s %d", f.EventName(s.Event), s.Period)
					w += fmt.Sprintf(" %s %s", want[i][5], want[i][6])
				}
				if got != w {
					t.Errorf("sample %d: %s, perfparser has %s", i, got, w)
				}
			}
		})
	}
}

// traceEvent is an entry of LinuxTracepoints' list: a side-band record with its size, or a
// sample with its fields.
type traceEvent struct {
	NonSample string
	Size      int
	Name      string `json:"n"`
	Meta      struct {
		Time        time.Time
		CPU         uint32
		PID         uint32
		TID         *uint32 // set if it differs from the process
		Level       uint64
		Opcode      uint64
		ID, Version uint64
		Tag         string
	}
	fields map[string]any
}

// UnmarshalJSON keeps a tracepoint's own fields in addition to the common ones.
func (e *traceEvent) UnmarshalJSON(b []byte) error {
	type plain traceEvent
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(&e.fields)
}

func readTraceEvents(t *testing.T) (inFile, inTime []traceEvent) {
	t.Helper()
	text := string(readCorpus(t, expectedDir+"/linuxtracepoints", "perf.data.json"))
	text = strings.TrimPrefix(text, "\ufeff")
	for _, note := range []string{"/* Events in File order */", "/* Events in Time order */"} {
		text = strings.Replace(text, note, "", 1)
	}
	var l []traceEvent
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	return l[:len(l)/2], l[len(l)/2:]
}

// LinuxTracepoints decodes every record, in file order and in time order. The payloads of
// its self-describing EventHeader samples are outside a tracepoint's format; for these the
// test compares the header's fields, whose values are under "meta".
func TestCorpusLinuxTracepoints(t *testing.T) {
	needCorpus(t)
	f := openCorpus(t, "linuxtracepoints.perf.data")
	inFile, inTime := readTraceEvents(t)
	records := recordsOf(t, f)
	t.Run("time order", func(t *testing.T) {
		// LinuxTracepoints sorts records without a time differently, and omits rounds.
		timed := slices.DeleteFunc(slices.Clone(records), func(r format.Raw) bool {
			return r.Type != format.TypeSample
		})
		inTime := slices.DeleteFunc(inTime, func(e traceEvent) bool { return e.NonSample != "" })
		compareTrace(t, f, timed, inTime)
	})
	t.Run("file order", func(t *testing.T) { compareTrace(t, f, inFileOrder(records), inFile) })
}

func compareTrace(t *testing.T, f *format.File, records []format.Raw, want []traceEvent) {
	if len(records) != len(want) {
		t.Errorf("%d records, LinuxTracepoints has %d", len(records), len(want))
	}
	bad := 0
	for i, e := range want[:min(len(records), len(want))] {
		r := records[i]
		var err error
		if r.Type == format.TypeSample && e.NonSample == "" {
			err = compareTraceSample(f, r, &e)
		} else if got := strings.ToUpper(e.NonSample); strings.ReplaceAll(r.Type.String(), "_", "") != got ||
			len(r.Data)+8 != e.Size {
			err = fmt.Errorf("%s of %d bytes, want %s of %d", r.Type, len(r.Data)+8, e.NonSample, e.Size)
		}
		if err != nil {
			t.Errorf("record %d at %#x: %v", i, r.Off, err)
			if bad++; bad > 5 {
				t.Fatal("and more")
			}
		}
	}
}

func compareTraceSample(f *format.File, r format.Raw, e *traceEvent) error {
	var s format.Sample
	if err := f.Sample(r, &s); err != nil {
		return err
	}
	clock, ok := f.ClockData()
	if !ok {
		return fmt.Errorf("the file has no clock data")
	}
	when := time.Unix(0, int64(clock.TimeOfDay+s.Time-clock.ClockTime)).UTC().Truncate(100)
	tid := e.Meta.PID
	if e.Meta.TID != nil {
		tid = *e.Meta.TID
	}
	got := fmt.Sprintf("%v cpu %d pid %d tid %d", when, s.CPU, uint32(s.PID), uint32(s.TID))
	if want := fmt.Sprintf("%v cpu %d pid %d tid %d", e.Meta.Time, e.Meta.CPU, e.Meta.PID, tid); got != want {
		return fmt.Errorf("%s, want %s", got, want)
	}
	return compareFields(f, &s, e)
}

func compareFields(f *format.File, s *format.Sample, e *traceEvent) error {
	tp := f.Tracepoint(s.Event)
	if tp == nil {
		return fmt.Errorf("event %d has no format", s.Event)
	}
	values := map[string]string{}
	env := f.Tracing.Env()
	for i := range tp.Fields {
		fd := &tp.Fields[i]
		values[fd.Name] = string(fd.AppendValue(nil, s.Raw, &env))
	}
	want := e.fields
	if provider, _, _ := strings.Cut(e.Name, ":"); e.Name != tp.System+":"+tp.Name {
		if tp.System != "user_events" || !strings.HasPrefix(tp.Name, provider+"_L") {
			return fmt.Errorf("it is %s:%s, want %s", tp.System, tp.Name, e.Name)
		}
		tag, err := strconv.ParseUint("0"+e.Meta.Tag, 0, 16)
		if e.Meta.Tag != "" {
			tag, err = strconv.ParseUint(e.Meta.Tag, 0, 16)
		}
		if err != nil {
			return err
		}
		want = map[string]any{"level": e.Meta.Level, "opcode": e.Meta.Opcode, "id": e.Meta.ID,
			"version": e.Meta.Version, "tag": tag}
	}
	for name, w := range want {
		if name == "n" || name == "meta" {
			continue
		}
		if got, ok := values[name]; !ok || !sameValue(got, fmt.Sprint(w)) {
			return fmt.Errorf("%s is %q, want %v", name, got, w)
		}
	}
	return nil
}

// sameValue compares texts, and numbers in any base.
func sameValue(a, b string) bool {
	x, ok1 := new(big.Int).SetString(a, 0)
	y, ok2 := new(big.Int).SetString(b, 0)
	return a == b || ok1 && ok2 && x.Cmp(y) == 0
}

// The test rewrites linux-perf-file-reader's dump of its perf 4.8 file, line by line, from
// the data that gperf reads.
func TestCorpusLinuxPerfFileReader(t *testing.T) {
	needCorpus(t)
	f := openCorpus(t, "linux-perf-file-reader.perf.data")
	var got bytes.Buffer
	dumpInfo(&got, f)
	fmt.Fprint(&got, "\nAttrs:\n")
	for i := range f.Attrs {
		fmt.Fprintf(&got, " %s\n", dumpAttr(&f.Attrs[i]))
	}
	fmt.Fprint(&got, "\nEvents:\n")
	for _, r := range recordsOf(t, f) {
		if err := dumpRecord(&got, f, r); err != nil {
			t.Fatal(err)
		}
	}
	want := readCorpus(t, expectedDir+"/linux-perf-file-reader", "dump.stdout")
	if g, w := firstDifferentLine(got.String(), string(want)); g != w {
		t.Errorf("the first different line is\n%s\nwant\n%s", g, w)
	}
}

func dumpInfo(w io.Writer, f *format.File) {
	fmt.Fprintf(w, "Info:\n hostname: %s\n os_release: %s\n tools_version: %s\n arch: %s\n cpu_description: %s\n",
		f.String(format.FeatureHostname),
		f.String(format.FeatureOSRelease), f.String(format.FeatureVersion), f.String(format.FeatureArch),
		f.String(format.FeatureCPUDesc))
	fmt.Fprintf(w, " total_memory: %d\n", slices.Concat(f.Uint64s(format.FeatureTotalMem, 1), []uint64{0})[0])
	topology, _ := f.CPUTopology()
	fmt.Fprintf(w, " command_line: %s\n cpu_topology: %s\n", rustStrings(f.Cmdline()), rustStrings(topology.Packages))
	cpus, _ := f.NrCPUs()
	fmt.Fprintf(w, " cpu_count: CpuCount { online: %d, available: %d }\n", cpus.Online, cpus.Available)
	for i := range f.Attrs {
		fmt.Fprintf(w, " event_attribute %s%v: %s\n", f.EventName(i), f.Attrs[i].IDs, dumpAttr(&f.Attrs[i]))
	}
}

func rustStrings(l []string) string {
	return "[" + strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", l), "[]"), `" "`, `", "`) + "]"
}

// names lists the names of the set bits.
func names(bits uint64, all ...string) string {
	var l []string
	for i, name := range all {
		if bits>>i&1 != 0 {
			l = append(l, name)
		}
	}
	if l == nil {
		return "(empty)"
	}
	return strings.Join(l, " | ")
}

func dumpAttr(a *format.Attr) string {
	types := []string{"Hardware", "Software", "TracePoint", "HardwareCache", "Raw", "Breakpoint"}
	return fmt.Sprintf(
		"EventAttributes { perf_type: %s, size: %d, config: %d, sample_period_or_freq: %d, sample_format: %s, "+
			"read_format: %s, flags: %s, "+
			"wakeup_events_or_watermakr: %d, bp_type: %d, bp_addr_or_config1: %d, bp_len_or_config2: %d, "+
			"branch_sample_type: %d, sample_regs_user: %d, "+
			"sample_stack_user: %d, clockid: %d, sample_regs_intr: %d, aux_watermark: %d, sample_max_stack: %d, "+
			"reserved_2: 0 }",
		types[a.Type], a.Size, a.Config, a.SamplePeriod,
		names(uint64(a.SampleType), "IP", "TID", "TIME", "ADDR", "READ", "CALLCHAIN", "ID", "CPU", "PERIOD"),
		names(uint64(a.ReadFormat), "TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "ID", "GROUP"),
		names(uint64(a.Flags), "DISABLED", "INHERIT", "PINNED", "EXCLUSIVE", "EXCLUDE_USER", "EXCLUDE_KERNEL",
			"EXCLUDE_HV", "EXCLUDE_IDLE", "MMAP", "COMM", "FREQ",
			"INHERIT_STAT", "ENABLE_ON_EXEC", "TASK", "WATERMARK", "PRECISE_IP1", "PRECISE_IP2", "MMAP_DATA",
			"SAMPLE_ID_ALL", "EXCLUDE_HOST", "EXCLUDE_GUEST",
			"EXCLUDE_CALLCHAIN_KERNEL", "EXCLUDE_CALLCHAIN_USER", "MMAP2", "COMM_EXEC"),
		a.Wakeup, a.BPType, a.Config1, a.Config2, a.BranchSampleType, a.SampleRegsUser, a.SampleStackUser, a.ClockID,
		a.SampleRegsIntr, a.AuxWatermark, a.SampleMaxStack)
}

func dumpRecord(w io.Writer, f *format.File, r format.Raw) error {
	switch r.Type {
	case format.TypeFinishedRound:
		return nil // absent from the dump
	case format.TypeSample:
		var s format.Sample
		err := f.Sample(r, &s)
		fmt.Fprintf(w, " Sample: ip: %x pid: %d tid: %d time: %d period: %d\n", s.IP, s.PID, s.TID, s.Time, s.Period)
		return err
	}
	rec, err := f.Record(r)
	if err != nil {
		return err
	}
	var id format.RecordID
	switch r := rec.(type) {
	case *format.Mmap:
		name := "Mmap"
		if id = r.ID; r.V2 {
			name = "Mmap2"
		}
		fmt.Fprintf(w, " %s: pid: %d, tid: %d, addr: %x, len: %d, pgoff: %x - %s\n", name, uint32(r.PID), uint32(r.TID),
			r.Start, r.Len, r.Pgoff, r.Filename)
		if r.V2 {
			fmt.Fprintf(w, "   dev: %d:%d inode: %d, inode generation: %d, prot: %d, flags: %d\n", r.Maj, r.Min, r.Ino,
				r.InoGen, r.Prot, r.Flags)
		}
	case *format.Comm:
		id = r.ID
		fmt.Fprintf(w, " Comm: pid: %d, tid:%d, comm: %s\n", r.PID, r.TID, r.Comm)
	case *format.Exit:
		id = r.ID
		fmt.Fprintf(w, " Exit: pid: %d, ppid: %d, tid:%d, ptid: %d, time: %d\n", r.PID, r.PPID, r.TID, r.PTID, r.Time)
	default:
		return fmt.Errorf("a %T, which is not in the dump", rec)
	}
	fmt.Fprintf(w, "  Sample: pid: %d tid: %d time: %d\n", id.PID, id.TID, id.Time)
	return nil
}

var simpleperfHead = regexp.MustCompile(`^\S.*\t(\d+/\d+ \[\d+\] \d+\.\d{6}: \d+ \S+):`)

// Simpleperf's own listing omits frames of the Java runtime and takes other names from
// tables in the file. Its samples, and the addresses of its frames in their order, equal
// gperf's.
func TestCorpusSimpleperfListing(t *testing.T) {
	needCorpus(t)
	type block struct {
		head   string
		frames []string
	}
	var want []block
	for scan := bufio.NewScanner(bytes.NewReader(readCorpus(t, expectedDir+"/simpleperf",
		"perf_display_bitmaps.perf-script"))); scan.Scan(); {
		if m := simpleperfHead.FindStringSubmatch(scan.Text()); m != nil {
			want = append(want, block{head: m[1]})
		} else if words := strings.Fields(scan.Text()); len(words) > 0 {
			b := &want[len(want)-1]
			b.frames = append(b.frames, words[0])
		}
	}
	f := openCorpus(t, "simpleperf.perf_display_bitmaps.data")
	samples := samplesOf(t, f)
	if len(samples) != len(want) || len(want) != 525 {
		t.Fatalf("%d samples, simpleperf has %d", len(samples), len(want))
	}
	whole := 0
	for i, s := range samples {
		head := fmt.Sprintf("%d/%d [%03d] %d.%06d: %d %s", s.PID, s.TID, s.CPU, s.Time/1e9, s.Time%1e9/1e3, s.Period,
			f.EventName(s.Event))
		if head != want[i].head {
			t.Fatalf("sample %d: %s, simpleperf has %s", i, head, want[i].head)
		}
		frames := addresses(&s)
		if slices.Equal(frames, want[i].frames) {
			whole++
		} else if !within(want[i].frames, frames) {
			t.Fatalf("sample %d: frames\n%v\nlack some of simpleperf's\n%v", i, frames, want[i].frames)
		}
	}
	if whole < len(want)/3 {
		t.Errorf("only %d chains are simpleperf's", whole)
	}
}

// addresses returns a callchain without its context markers.
func addresses(s *format.Sample) (l []string) {
	for i := range s.Callchain.Len() {
		if ip := s.Callchain.At(i); ip < format.ContextMax {
			l = append(l, strconv.FormatUint(ip, 16))
		}
	}
	return l
}

// within reports whether all contains the values of part, in the same order.
func within(part, all []string) bool {
	for _, a := range all {
		if len(part) > 0 && part[0] == a {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// The Firefox profile of simpleperf's tracepoint recording contains the time of each
// sample.
func TestCorpusSimpleperfGecko(t *testing.T) {
	needCorpus(t)
	var profile struct {
		Threads []struct {
			Name     string
			PID, TID int32
			Samples  struct{ Data [][]float64 }
		}
	}
	if err := json.Unmarshal(readCorpus(t, expectedDir+"/simpleperf", "perf_with_tracepoint_event.gecko.json"),
		&profile); err != nil {
		t.Fatal(err)
	}
	f := openCorpus(t, "simpleperf.perf_with_tracepoint_event.data")
	samples := samplesOf(t, f)
	if len(profile.Threads) != 1 || len(samples) != 45 || len(profile.Threads[0].Samples.Data) != len(samples) {
		t.Fatalf("%d samples; the profile has %d threads", len(samples), len(profile.Threads))
	}
	th := profile.Threads[0]
	for i, s := range samples {
		if ms := th.Samples.Data[i][1]; s.PID != th.PID || s.TID != th.TID || ms != float64(s.Time)/1e6 {
			t.Errorf("sample %d: %d/%d at %f ms, the profile has %d/%d at %f ms", i, s.PID, s.TID, float64(s.Time)/1e6,
				th.PID, th.TID, ms)
		}
		if f.Attrs[s.Event].Type == format.TypeTracepoint {
			checkSwitch(t, f, &s)
		}
	}
}

// checkSwitch checks that the previous thread of a sched_switch is the sampled thread. A
// record of the file contains the formats.
func checkSwitch(t *testing.T, f *format.File, s *format.Sample) {
	t.Helper()
	tp := f.Tracepoint(s.Event)
	if tp == nil || tp.Name != "sched_switch" {
		t.Fatalf("the format of %s is %v", f.EventName(s.Event), tp)
	}
	i := slices.IndexFunc(tp.Fields, func(fd tracepoint.Field) bool { return fd.Name == "prev_pid" })
	env := f.Tracing.Env()
	if got := string(tp.Fields[i].AppendValue(nil, s.Raw, &env)); got != strconv.Itoa(int(s.TID)) {
		t.Errorf("prev_pid is %s in a sample of %d", got, s.TID)
	}
}

// The folded stacks of two events contain the periods of each command, for cycles and for
// cpu-clock.
func TestCorpusSimpleperfFolded(t *testing.T) {
	needCorpus(t)
	f := openCorpus(t, "simpleperf.perf_with_two_event_types.data")
	for file, event := range map[string]string{"perf_with_two_event_types.foldedstack": "",
		"perf_with_two_event_types.foldedstack_cpu_clock": "cpu-clock"} {
		total := map[string]uint64{}
		comm := map[int32]string{}
		for _, r := range recordsOf(t, f) {
			if r.Type == format.TypeComm {
				rec, err := f.Record(r)
				if err != nil {
					t.Fatal(err)
				}
				c := rec.(*format.Comm)
				comm[c.TID] = c.Comm
				continue
			}
			var s format.Sample
			if r.Type != format.TypeSample {
				continue
			}
			if err := f.Sample(r, &s); err != nil {
				t.Fatal(err)
			}
			if name := f.EventName(s.Event); name == event || event == "" && s.Event == 0 {
				total[comm[s.TID]] += s.Period
			}
		}
		for line := range strings.Lines(string(readCorpus(t, expectedDir+"/simpleperf", file))) {
			name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strconv.FormatUint(total[name], 10) != n {
				t.Errorf("%s: the periods of %s are %d, want %s", file, name, total[name], n)
			}
			delete(total, name)
		}
		if len(total) > 0 {
			t.Errorf("%s lacks %v", file, total)
		}
	}
}
