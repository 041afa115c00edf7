package format_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gperf/format"
)

// Quipper (Chrome OS, Google's fleet) converts a recording to a protobuf message. Its test
// baselines are these messages as text. The tests compare them field by field with gperf's
// decoding.
//
// The tests do not compare quipper's own sums and guesses (*_md5_prefix, root_path, stats,
// timestamp_sec), attr.size (the size of quipper's struct), and the bytes of AUX areas.
// Quipper drops records of types unknown to it (BPF_EVENT, CPU_MAP, EVENT_UPDATE,
// FINISHED_INIT) and those that only repeat other data (HEADER_*).

// message is a protobuf message in text form. It maps the path of each field, with the
// index of repeated ones ("sample_event.callchain[2]"), to its value.
type message map[string]string

// parseMessage reads a message up to its closing brace.
func parseMessage(lines []string) (message, []string, error) {
	m := message{}
	rest, err := m.parse(lines, "")
	return m, rest, err
}

func (m message) parse(lines []string, prefix string) ([]string, error) {
	count := map[string]int{}
	for len(lines) > 0 {
		line := strings.TrimSpace(lines[0])
		lines = lines[1:]
		if line == "}" {
			return lines, nil
		}
		name, value, scalar := strings.Cut(line, ": ")
		if !scalar {
			name = strings.TrimSuffix(line, " {")
		}
		path := element(prefix+name, count[name])
		count[name]++
		switch {
		case strings.HasSuffix(name, "_md5_prefix") || name == "root_path":
		case scalar:
			if strings.HasPrefix(value, `"`) {
				var err error
				if value, err = unquoteProto(value); err != nil {
					return nil, fmt.Errorf("%s: %w", line, err)
				}
			}
			m[path] = value
		default:
			var err error
			if lines, err = m.parse(lines, path+"."); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// unquoteProto decodes a string literal. Its escapes are Go's, except for the single
// quotation mark.
func unquoteProto(s string) (string, error) {
	s = strings.ReplaceAll(s, `\\`, `\134`)
	return strconv.Unquote(strings.ReplaceAll(s, `\'`, `'`))
}

// baseline is one of quipper's text files.
type baseline struct {
	messages map[string][]message // non-scalar fields, by name
	scalars  map[string]string
}

func readBaseline(t *testing.T, name string) baseline {
	t.Helper()
	b := baseline{map[string][]message{}, map[string]string{}}
	lines := strings.Split(strings.TrimSpace(string(readCorpus(t, expectedDir+"/quipper", name))), "\n")
	for len(lines) > 0 {
		field, value, scalar := strings.Cut(lines[0], ": ")
		lines = lines[1:]
		if scalar {
			b.scalars[field] = value
			continue
		}
		field = strings.TrimSuffix(field, " {")
		m, rest, err := parseMessage(lines)
		if err != nil {
			t.Fatal(err)
		}
		b.messages[field] = append(b.messages[field], m)
		lines = rest
	}
	return b
}

// quipperRecords are the record types that quipper keeps.
var quipperRecords = map[format.Type]string{
	format.TypeMmap: "mmap_event", format.TypeMmap2: "mmap_event", format.TypeLost: "lost_event", format.TypeComm: "comm_event",
	format.TypeExit: "exit_event", format.TypeFork: "fork_event", format.TypeThrottle: "throttle_event", format.TypeUnthrottle: "throttle_event",
	format.TypeRead: "read_event", format.TypeSample: "sample_event", format.TypeAux: "aux_event", format.TypeItraceStart: "itrace_start_event",
	format.TypeLostSamples: "lost_samples_event", format.TypeSwitch: "context_switch_event", format.TypeSwitchCPUWide: "context_switch_event",
	format.TypeNamespaces: "namespaces_event", format.TypeKSymbol: "ksymbol_event", format.TypeCgroup: "cgroup_event",
	format.TypeFinishedRound: "", format.TypeIDIndex: "id_index_event", format.TypeAuxtraceInfo: "auxtrace_info_event", format.TypeAuxtrace: "auxtrace_event",
	format.TypeThreadMap: "thread_map_event", format.TypeTimeConv: "time_conv_event",
}

// set stores values under their names, each with prefix before it.
func (m message) set(prefix string, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		m[prefix+pairs[i].(string)] = fmt.Sprint(pairs[i+1])
	}
}

// element returns the path of element n of a repeated field.
func element(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s[%d]", path, n)
}

// event returns a record in quipper's form.
func event(f *format.File, r format.Raw) (message, error) {
	m := message{}
	m.set("header.", "type", uint32(r.Type), "misc", uint16(r.Misc), "size", len(r.Data)+8)
	m.set("", "timestamp", r.Time)
	if r.Type == format.TypeSample {
		return m, m.sample(f, r)
	}
	rec, err := f.Record(r)
	if err != nil {
		return nil, err
	}
	p := quipperRecords[r.Type] + "."
	if m.user(p, rec) {
		return m, nil
	}
	id, err := m.record(p, rec)
	if a := f.Attrs[0]; a.Flags&format.FlagSampleIDAll != 0 {
		m.sampleID(p+"sample_info.", id, a.SampleType)
	}
	return m, err
}

// user adds the fields of a record that perf wrote itself.
func (m message) user(p string, rec format.Record) bool {
	switch r := rec.(type) {
	case *format.FinishedRound:
	case *format.IDIndex:
		for i, e := range r.Entries {
			m.set(element(p+"entries", i)+".", "id", e.ID, "idx", e.Index, "cpu", uint64(e.CPU), "tid", uint64(e.TID))
		}
	case *format.AuxtraceInfo:
		m.set(p, "type", uint32(r.Type))
		for i := range r.Priv.Len() {
			m.set("", element(p+"unparsed_binary_blob_priv_data", i), r.Priv.At(i))
		}
	case *format.Auxtrace:
		m.set(p, "size", r.Size, "offset", r.Off, "reference", r.Reference, "idx", r.Index, "tid", uint32(r.TID),
			"cpu", uint32(r.CPU))
	case *format.ThreadMap:
		for i, th := range r.Threads {
			m.set(element(p+"entries", i)+".", "pid", uint64(th.TID), "comm", th.Comm)
		}
	case *format.TimeConv:
		m.set(p, "time_shift", r.Shift, "time_mult", r.Mult, "time_zero", r.Zero, "time_cycles", r.Cycles,
			"time_mask", r.Mask,
			"cap_user_time_zero", r.CapZero, "cap_user_time_short", r.CapShort)
	default:
		return false
	}
	return true
}

// record adds the fields of a record of the kernel.
func (m message) record(p string, rec format.Record) (format.RecordID, error) {
	switch r := rec.(type) {
	case *format.Mmap:
		m.set(p, "pid", uint32(r.PID), "tid", uint32(r.TID), "start", r.Start, "len", r.Len, "pgoff", r.Pgoff,
			"filename", r.Filename)
		if r.V2 {
			m.set(p, "maj", r.Maj, "min", r.Min, "ino", r.Ino, "ino_generation", r.InoGen, "prot", r.Prot,
				"flags", r.Flags)
		}
		return r.ID, nil
	case *format.Comm:
		m.set(p, "pid", uint32(r.PID), "tid", uint32(r.TID), "comm", r.Comm)
		return r.ID, nil
	case *format.Fork:
		m.fork(p, r)
		return r.ID, nil
	case *format.Exit:
		m.fork(p, (*format.Fork)(r))
		return r.ID, nil
	case *format.Aux:
		m.set(p, "aux_offset", r.Off, "aux_size", r.Size, "is_truncated", r.Flags&format.AuxTruncated != 0,
			"is_overwrite", r.Flags&format.AuxOverwrite != 0, "is_partial", r.Flags&format.AuxPartial != 0)
		return r.ID, nil
	case *format.ItraceStart:
		m.set(p, "pid", uint32(r.PID), "tid", uint32(r.TID))
		return r.ID, nil
	case *format.LostSamples:
		m.set(p, "num_lost", r.Lost)
		return r.ID, nil
	case *format.Throttle:
		m.set(p, "time_ns", r.Time, "id", r.EventID, "stream_id", r.StreamID)
		return r.ID, nil
	case *format.Switch:
		m.set(p, "is_out", r.Misc&format.MiscSwitchOut != 0)
		if r.CPUWide {
			m.set(p, "next_prev_pid", uint32(r.NextPID), "next_prev_tid", uint32(r.NextTID))
		}
		return r.ID, nil
	case *format.Namespaces:
		m.set(p, "pid", uint32(r.PID), "tid", uint32(r.TID))
		for i, n := range r.NS {
			m.set(element(p+"link_info", i)+".", "dev", n.Dev, "ino", n.Ino)
		}
		return r.ID, nil
	case *format.KSymbol:
		m.set(p, "addr", r.Addr, "len", r.Len, "ksym_type", r.Type, "flags", r.Flags, "name", r.Name)
		return r.ID, nil
	}
	return format.RecordID{}, fmt.Errorf("a %T, for which there is no baseline", rec)
}

func (m message) fork(p string, r *format.Fork) {
	m.set(p, "pid", uint32(r.PID), "ppid", uint32(r.PPID), "tid", uint32(r.TID), "ptid", uint32(r.PTID),
		"fork_time_ns", r.Time)
}

func (m message) sampleID(p string, id format.RecordID, st format.SampleType) {
	if st&format.SampleTID != 0 {
		m.set(p, "pid", uint32(id.PID), "tid", uint32(id.TID))
	}
	if st&format.SampleTime != 0 {
		m.set(p, "sample_time_ns", id.Time)
	}
	if st&(format.SampleID|format.SampleIdentifier) != 0 {
		m.set(p, "id", id.ID)
	}
	if st&format.SampleCPU != 0 {
		m.set(p, "cpu", id.CPU)
	}
}

func (m message) sample(f *format.File, r format.Raw) error {
	var s format.Sample
	if err := f.Sample(r, &s); err != nil {
		return err
	}
	a := &f.Attrs[s.Event]
	p := "sample_event."
	m.sampleID(p, format.RecordID{PID: s.PID, TID: s.TID, Time: s.Time, ID: s.ID, CPU: s.CPU}, a.SampleType)
	for _, field := range []struct {
		bit  format.SampleType
		name string
		v    any
	}{
		{format.SampleIP, "ip", s.IP},
		{format.SampleAddr, "addr", s.Addr},
		{format.SampleStreamID, "stream_id", s.StreamID},
		{format.SamplePeriod, "period", s.Period},
		{format.SampleRaw, "raw_size", len(s.Raw)},
		{format.SampleRaw, "raw", string(s.Raw)},
	} {
		if a.SampleType&field.bit != 0 {
			m.set(p, field.name, field.v)
		}
	}
	for i := range s.Callchain.Len() {
		m.set("", element(p+"callchain", i), s.Callchain.At(i))
	}
	if a.SampleType&format.SampleBranchStack != 0 {
		m.branches(p, &s)
	}
	return nil
}

// branches decodes the stack like struct perf_branch_entry. None of the baselines has a
// hardware index.
func (m message) branches(p string, s *format.Sample) {
	m.set(p, "no_hw_idx", true, "branch_stack_hw_idx", 0)
	w := s.BranchStack
	for i := range w.Len() / 3 {
		flags := w.At(3*i + 2)
		bit := func(n int) bool { return flags>>n&1 != 0 }
		m.set(element(p+"branch_stack", i)+".", "from_ip", w.At(3*i), "to_ip", w.At(3*i+1), "mispredicted", bit(0),
			"predicted", bit(1), "in_transaction", bit(2),
			"abort", bit(3), "cycles", flags>>4&0xffff, "type", flags>>20&0xf, "spec", flags>>24&3)
	}
}

// newFields are fields that older versions of quipper or the kernel do not have.
var newFields = regexp.MustCompile(
	`^sample_event\.(branch_stack(\[\d+\])?\.(type|spec)|branch_stack_hw_idx|no_hw_idx)$|` +
		`^time_conv_event\.(time_cycles|time_mask|cap_user_time_zero|cap_user_time_short)$`)

// asOf converts m to the form of the quipper version of want: older versions had fewer
// fields, and set the highest bit of addresses outside all mappings.
func (m message) asOf(want message) message {
	for path := range m {
		w, known := want[path]
		if !known && newFields.MatchString(path) {
			delete(m, path)
		}
		if want.number(path) == m.number(path)|1<<63 {
			m[path] = w
		}
	}
	return m
}

// differences lists the fields that differ between two messages.
func (m message) differences(want message) (l []string) {
	keys := maps.Clone(want)
	maps.Copy(keys, m)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if g, w := m[k], want[k]; g != w {
			l = append(l, fmt.Sprintf("%s is %q, quipper has %q", k, g, w))
		}
	}
	return l
}

// events returns the records of a file that quipper keeps, in the order of the baseline:
// file order for quipper's reader, time order for its parser.
func events(t *testing.T, f *format.File, byTime bool) (l []message) {
	t.Helper()
	records := inFileOrder(recordsOf(t, f))
	if byTime {
		slices.SortStableFunc(records, func(a, b format.Raw) int { return cmp.Compare(a.Time, b.Time) })
	}
	for _, r := range records {
		if _, ok := quipperRecords[r.Type]; !ok {
			continue
		}
		m, err := event(f, r)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, m)
	}
	return l
}

// quipperFiles are the baselines, each with the number of mappings that it lacks:
// quipper's parser merges a DSO's adjacent mappings where a huge page interrupts them.
var quipperFiles = []struct {
	name   string
	merged int
}{
	{"armv7-3.4", 0}, {"branch-4.14", 0}, {"branch_stack_spec", 0}, {"callgraph-3.4", 6}, {"callgraph_and_branch-3.4", 6},
	{"ctx_switch_namespaces-4.14", 0}, {"group_desc-4.14", 0}, {"hw_and_sw-3.4", 0}, {"hybrid_topology", 0}, {"intel_pt-4.14", 0},
	{"lost_samples-4.4", 0}, {"piped.header_features-4.16.pr.out", 0}, {"piped.header_feautres_group_desc-6.8.pr.out", 0},
	{"piped.target-3.4", 0}, {"piped.target-3.4.pr.out", 0}, {"piped.target.throttled-3.4", 0}, {"piped.target.throttled-3.4.pr.out", 0},
	{"proc.map.timeout-3.18", 0}, {"raw-3.4", 3}, {"remmap-3.2", 0}, {"singleprocess-3.4", 0}, {"systemwide.0-3.4", 6}, {"systemwide.1-3.8", 3},
}

func TestCorpusQuipper(t *testing.T) {
	needCorpus(t)
	for _, tc := range quipperFiles {
		t.Run(tc.name, func(t *testing.T) {
			want := readBaseline(t, "perf.data."+tc.name+".pb_text")
			recording, atReader := strings.CutSuffix(tc.name, ".pr.out")
			f := openCorpus(t, "quipper.perf.data."+recording)
			t.Run("events", func(t *testing.T) {
				compareEvents(t, events(t, f, !atReader), want.messages["events"], tc.merged)
			})
			t.Run("attrs", func(t *testing.T) { compareAttrs(t, f, want.messages["file_attrs"]) })
			t.Run("features", func(t *testing.T) { compareFeatures(t, f, want) })
			if !strings.HasPrefix(tc.name, "piped.") { // for pipes, quipper lists the features that it reads
				t.Run("mask", func(t *testing.T) { compareMask(t, f, want.scalars["metadata_mask"]) })
			}
		})
	}
}

func compareEvents(t *testing.T, got, want []message, merged int) {
	lacking := len(got) - len(want)
	for i := range min(len(got), len(want)) {
		if got[i]["mmap_event.len"] != want[i]["mmap_event.len"] {
			got = absorb(got, i, want[i])
		}
		delete(want[i], "auxtrace_event.trace_data")
		if l := got[i].asOf(want[i]).differences(want[i]); len(l) > 0 {
			t.Fatalf("event %d of %d and %d:\n%s", i, len(got), len(want), strings.Join(l[:min(len(l), 12)], "\n"))
		}
	}
	if len(got) != len(want) || lacking != merged {
		t.Errorf("%d events, quipper has %d; it merged %d mappings, not %d", len(got), len(want), lacking, merged)
	}
}

// absorb merges mapping i with the following mappings that continue it, like quipper.
func absorb(events []message, i int, want message) []message {
	end := i + 1
	size := events[i].number("mmap_event.len")
	for end < len(events) && size < want.number("mmap_event.len") &&
		events[end]["mmap_event.pid"] == want["mmap_event.pid"] &&
		events[end].number("mmap_event.start") == want.number("mmap_event.start")+size {
		size += events[end].number("mmap_event.len")
		end++
	}
	events[i].set("mmap_event.", "len", size)
	return slices.Delete(events, i+1, end)
}

func (m message) number(path string) uint64 {
	n, _ := strconv.ParseUint(m[path], 10, 64)
	return n
}

// attrFlags are the names of the flags in quipper and the kernel.
var attrFlags = map[string]format.AttrFlags{
	"disabled": format.FlagDisabled, "inherit": format.FlagInherit, "pinned": format.FlagPinned, "exclusive": format.FlagExclusive,
	"exclude_user": format.FlagExcludeUser, "exclude_kernel": format.FlagExcludeKernel, "exclude_hv": format.FlagExcludeHV,
	"exclude_idle": format.FlagExcludeIdle, "mmap": format.FlagMmap, "comm": format.FlagComm, "freq": format.FlagFreq,
	"inherit_stat": format.FlagInheritStat, "enable_on_exec": format.FlagEnableOnExec, "task": format.FlagTask, "watermark": format.FlagWatermark,
	"mmap_data": format.FlagMmapData, "sample_id_all": format.FlagSampleIDAll, "exclude_host": format.FlagExcludeHost,
	"exclude_guest": format.FlagExcludeGuest, "exclude_callchain_kernel": format.FlagExcludeCallchainKernel,
	"exclude_callchain_user": format.FlagExcludeCallchainUser, "mmap2": format.FlagMmap2, "comm_exec": format.FlagCommExec,
	"use_clockid": format.FlagUseClockID, "context_switch": format.FlagContextSwitch, "write_backward": format.FlagWriteBackward,
	"namespaces": format.FlagNamespaces, "cgroup": format.FlagCgroup, "ksymbol": format.FlagKSymbol,
}

func attrMessage(a *format.Attr) message {
	m := message{}
	m.set("attr.", "type", uint32(a.Type), "config", a.Config, "sample_period", a.SamplePeriod, "sample_type",
		uint64(a.SampleType),
		"read_format", uint64(a.ReadFormat), "precise_ip", a.Flags.PreciseIP(), "wakeup_events", a.Wakeup,
		"bp_type", a.BPType,
		"bp_addr", a.Config1, "bp_len", a.Config2, "branch_sample_type", a.BranchSampleType, "sample_regs_user",
		a.SampleRegsUser,
		"sample_stack_user", a.SampleStackUser)
	for name, bit := range attrFlags {
		m.set("attr.", name, a.Flags&bit != 0)
	}
	for i, id := range a.IDs {
		m.set("", element("ids", i), id)
	}
	return m
}

func compareAttrs(t *testing.T, f *format.File, want []message) {
	if len(f.Attrs) != len(want) {
		t.Fatalf("%d attrs, quipper has %d", len(f.Attrs), len(want))
	}
	for i := range want {
		delete(want[i], "attr.size")
		got := attrMessage(&f.Attrs[i])
		// The quipper of the oldest baselines did not know all flags.
		for name := range attrFlags {
			if _, ok := want[i]["attr."+name]; !ok {
				delete(got, "attr."+name)
			}
		}
		if l := got.differences(want[i]); len(l) > 0 {
			t.Errorf("attr %d: %s", i, strings.Join(l, "\n"))
		}
	}
}

// compareFeatures compares the feature sections for which quipper has messages.
func compareFeatures(t *testing.T, f *format.File, want baseline) {
	got := features(t, f)
	for _, name := range []string{"build_ids", "uint32_metadata", "uint64_metadata", "event_types", "cpu_topology",
		"numa_topology", "pmu_mappings", "string_metadata"} {
		g, w := got[name], want.messages[name]
		if len(g) != len(w) {
			t.Errorf("%d %s, quipper has %d: %v", len(g), name, len(w), g)
			continue
		}
		for i := range w {
			w[i].withoutSizeBit()
			if l := g[i].differences(w[i]); len(l) > 0 {
				t.Errorf("%s %d: %s", name, i, strings.Join(l, "\n"))
			}
		}
	}
}

func compareMask(t *testing.T, f *format.File, want string) {
	var mask uint64
	for n := range format.Feature(64) {
		if f.Has(n) {
			mask |= 1 << n
		}
	}
	if got := strconv.FormatUint(mask, 10); got != want {
		t.Errorf("features %s, quipper has %s", got, want)
	}
}

func features(t *testing.T, f *format.File) map[string][]message {
	t.Helper()
	l := map[string][]message{}
	put := func(name string, pairs ...any) message {
		m := message{}
		m.set("", pairs...)
		l[name] = append(l[name], m)
		return m
	}
	ids, err := f.BuildIDs()
	if err != nil {
		t.Error(err)
	}
	for _, id := range ids {
		put("build_ids", "misc", uint16(id.Misc), "pid", uint32(id.PID), "filename", id.Filename, "build_id_hash",
			string(padded(id.BuildID)), "size", len(id.BuildID))
	}
	if n, ok := f.NrCPUs(); ok {
		// In file order: perf before 3.19 wrote these in reverse.
		put("uint32_metadata", "type", uint8(format.FeatureNrCPUs), "data", n.Available, "data[1]", n.Online)
	}
	if v := f.Uint64s(format.FeatureTotalMem, 1); v != nil {
		put("uint64_metadata", "type", uint8(format.FeatureTotalMem), "data", v[0])
	}
	for i := range f.Attrs {
		name := f.EventName(i)
		if f.Attrs[i].Name == "" {
			name, _, _ = strings.Cut(name, ":") // unlike perf, old streams name events without their modifiers
		}
		put("event_types", "id", f.Attrs[i].Config, "name", name)
	}
	topology(f, put)
	for _, p := range f.PMUMappings() {
		put("pmu_mappings", "type", p.Type, "name", p.Name)
	}
	stringFeatures(f, put)
	return l
}

// withoutSizeBit clears the bit of a BUILD_ID entry for "the entry has a size", which
// gperf always sets.
func (m message) withoutSizeBit() {
	const bit = 1 << 15
	if _, ok := m["build_id_hash"]; !ok {
		return
	}
	if misc := m.number("misc"); misc&bit != 0 {
		m.set("", "misc", misc&^bit)
	} else {
		m.set("", "size", 20)
	}
}

func padded(id format.BuildID) []byte { return append(slices.Clone(id), make([]byte, 20-len(id))...) }

func topology(f *format.File, put func(string, ...any) message) {
	if c, ok := f.CPUTopology(); ok {
		m := put("cpu_topology")
		for i, s := range c.Packages {
			m.set("", element("core_siblings", i), s)
		}
		for i, s := range c.Cores {
			m.set("", element("thread_siblings", i), s)
		}
		for i, p := range c.CPUs {
			m.set(element("available_cpus", i)+".", "core_id", p.Core, "socket_id", p.Package)
		}
	}
	nodes, _ := f.NUMATopology()
	for _, n := range nodes {
		put("numa_topology", "id", n.Node, "total_memory", n.Total, "free_memory", n.Free, "cpu_list", n.CPUs)
	}
}

func stringFeatures(f *format.File, put func(string, ...any) message) {
	m := message{}
	for name, n := range map[string]format.Feature{
		"hostname": format.FeatureHostname, "kernel_version": format.FeatureOSRelease, "perf_version": format.FeatureVersion,
		"architecture": format.FeatureArch, "cpu_description": format.FeatureCPUDesc, "cpu_id": format.FeatureCPUID,
	} {
		if _, ok := f.Sections[n]; ok {
			m[name+".value"] = f.String(n)
		}
	}
	words := f.Cmdline()
	for i, w := range words {
		m[element("perf_command_line_token", i)+".value"] = w
	}
	if len(words) > 0 {
		m["perf_command_line_whole.value"] = strings.Join(words, " ")
	}
	if len(m) > 0 {
		maps.Copy(put("string_metadata"), m)
	}
}
