package inspect

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gperf/format"
)

// u32s, u64s and str encode the parts of sections, little-endian.
func u32s(l ...uint32) string {
	var b []byte
	for _, v := range l {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(b)
}

func u64s(l ...uint64) string {
	var b []byte
	for _, v := range l {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return string(b)
}

func str(s string) string {
	return u32s(uint32(len(s)+64)&^63) + s + strings.Repeat("\x00", 64-len(s)%64)
}

// sections contains sections of most features that Header prints.
var sections = map[format.Feature]string{
	format.FeatureHostname:    str("host"),
	format.FeatureArch:        str("x86_64"),
	format.FeatureNrCPUs:      u32s(2, 1),
	format.FeatureTotalMem:    u64s(1024),
	format.FeatureCmdline:     u32s(2) + str("perf") + str("it's"),
	format.FeatureCPUTopology: u32s(1) + str("0-1") + u32s(2) + str("0") + str("1"),
	format.FeatureBranchStack: "",
	format.FeaturePMUMappings: u32s(2, 4) + str("cpu") + u32s(11) + str("ibs_op"),
	format.FeatureGroupDesc:   u32s(1) + str("both") + u32s(0, 2),
	format.FeatureAuxtrace:    u64s(1, 0x100, 0x30),
	format.FeatureStat:        "",
	format.FeatureCache:       u32s(1, 1, 1, 64, 64, 12) + str("Data") + str("48K") + str("0-1"),
	format.FeatureSampleTime:  u64s(1_500_000_000, 2_000_000_000),
	format.FeatureMemTopology: u64s(1, 1<<20, 1, 0, 65, 65, 5, 1),
	format.FeatureClockID:     u64s(1),
	format.FeatureDirFormat:   u64s(1),
	format.FeatureBPFProgInfo: u32s(0),
	format.FeatureBPFBTF:      u32s(2) + u32s(9, 0) + u32s(7, 0),
	format.FeatureCompressed:  u32s(1, 1, 3, 7, 4096),
	format.FeatureCPUPMUCaps:  u32s(1) + str("max_precise") + str("0"),
	format.FeatureClockData:   u32s(1, 4) + u64s(1_711_586_712_588_060_000, 12_782_502_283_276),
	format.FeatureHybrid:      u32s(1) + str("cpu_core") + str("0-1"),
	format.FeaturePMUCaps:     u32s(1, 0) + str("cpu_atom"),
	format.FeatureCPUDomain:   u32s(17, 1, 0, 1, 0) + str("MC") + str("3") + str("0-1"),
	format.FeatureEMachine:    u32s(62, 0),
	format.FeatureCacheLine:   u32s(64),
	format.FeatureMetaInfo:    "arch\x00arm64\x00",
	format.FeatureDebugUnwind: "\x0a\x06\x0a\x02/a\x10\x09",
}

func file() *format.File {
	f := &format.File{Order: format.LittleEndian, Version: 2, Pipe: true, Sections: map[format.Feature][]byte{},
		Attrs: []format.Attr{{Name: "cycles"}, {Name: "instructions"}, {Name: "page-faults"}}}
	for n, s := range sections {
		f.Sections[n] = []byte(s)
	}
	return f
}

func headerText(f *format.File, full bool) string {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	Header(w, f, time.Unix(0, 0).UTC(), full)
	w.Flush()
	return b.String()
}

func same(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d differs; got\n%s\nwant\n%s", i+1, strings.Join(g[min(i, len(g)):], "\n"),
				strings.Join(w[min(i, len(w)):], "\n"))
		}
	}
}

// In a recording from a pipe, the features follow the header's end. The texts are the output of perf 7.3 for the same
// sections in a file.
func TestHeaderOfPipe(t *testing.T) {
	t.Setenv("TZ", "UTC")
	const head = `# ========
# captured on    : Thu Jan  1 00:00:00 1970
# header version : 1
# data offset    : 0
# data size      : 0
# feat offset    : 0
# ========
#
# hostname : host
# arch : x86_64
# nrcpus online : 1
# nrcpus avail : 2
# total memory : 1024 kB
# cmdline : perf it\'s 
`
	same(t, headerText(file(), false), head+`# CPU_TOPOLOGY info available, use -I to display
# contains samples with branch stack
# pmu mappings: cpu = 4, ibs_op = 11
# group: both{cycles,instructions}
# contains AUX area data (e.g. instruction trace)
# contains stat data
# CACHE info available, use -I to display
# time of first sample : 1.500000
# time of last sample : 2.000000
# sample duration :    500.000 ms
# MEM_TOPOLOGY info available, use -I to display
# clockid frequency: 1000 MHz
# directory data version : 1
# bpf_prog_info empty
# btf info of id 7
# btf info of id 9
# compressed : Zstd, level = 3, ratio = 7
# cpu pmu capabilities: max_precise=0
# clockid: monotonic_raw (4)
# reference time: 2024-03-28 00:45:12.588060 = 1711586712.588060 (TOD) = 12782.502283276 (monotonic_raw)
# HYBRID_TOPOLOGY info available, use -I to display
# cpu_atom pmu capabilities: not available
# AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, see the 'perf list' man page for further details.
# CPU_DOMAIN_INFO info available, use -I to display
# e_machine : 62
#   e_flags : 0
# cacheline size: 64
`)
	full := headerText(file(), true)
	for _, want := range []string{`
# sibling sockets : 0-1
# sibling threads : 0
# sibling threads : 1
# Core ID and Socket ID information is not available
`, `
# CPU cache info:
#  L1 Data                 48K [0-1]
`, `
# memory nodes (nr 1, block size 0x100000):
#    0 [3M]: 0,2,64
`, `
# hybrid cpu system:
# cpu_core cpu list : 0-1
`, `
# schedstat version	: 17
# Maximum sched domains	: 1
# cpu		: 0
# nr_domains	: 1
# Domain		: 0
# Domain name      : MC
# Domain cpu map   : 3
# Domain cpu list  : 0-1
`, `
# simpleperf meta_info : arch = arm64
# simpleperf debug_unwind : /a, 9 bytes
`} {
		if !strings.Contains(full, want) {
			t.Errorf("it has not %sbut\n%s", want, full)
		}
	}
}

// Damaged sections are reported; the others are shown.
func TestHeaderDamaged(t *testing.T) {
	for n := range sections {
		f := file()
		if len(f.Sections[n]) == 0 || n >= format.FeatureFile {
			continue
		}
		f.Sections[n] = f.Sections[n][:len(f.Sections[n])-1]
		got := headerText(f, true)
		if !strings.Contains(got, "# "+n.String()+": feature section ") || !strings.Contains(got, "is truncated\n") {
			t.Errorf("%s cut short: nothing is said of it:\n%s", n, got)
		}
		if n != format.FeatureCacheLine && !strings.Contains(got, "# cacheline size: 64\n") {
			t.Errorf("%s cut short: the last section is missing:\n%s", n, got)
		}
	}
	f := file()
	f.Sections[format.FeatureEventDesc] = []byte{1}
	if got := headerText(f, false); !strings.Contains(got, "# event desc: not available or unable to read\n") {
		t.Errorf("damaged event descriptions: \n%s", got)
	}
}

// The text is the output of perf evlist -v of perf 7.3 for these bytes.
func TestAttrFields(t *testing.T) {
	a := format.Attr{Type: format.TypeSoftware, Size: 128, SamplePeriod: 2000, SampleType: 1<<64 - 1,
		ReadFormat: 0xff, Flags: 1<<64 - 1,
		Wakeup: 7, BPType: 3, Config1: 0x1234, Config2: 0x77, BranchSampleType: 1<<64 - 1, SampleRegsUser: 0xabc,
		SampleStackUser: 8192, ClockID: -3,
		SampleRegsIntr: 0x33, AuxWatermark: 99, SampleMaxStack: 12, AuxSampleSize: 55, AuxAction: 6, SigData: 0x99}
	var parts []string
	for _, f := range AttrFields(&a, "") {
		parts = append(parts, f.Name+": "+f.Value)
	}
	const want = `type: 1 (PERF_TYPE_SOFTWARE), size: 128, config: 0 (PERF_COUNT_SW_CPU_CLOCK), { sample_period, ` +
		`sample_freq }: 2000, sample_type: ` +
		`IP|TID|TIME|ADDR|READ|CALLCHAIN|ID|CPU|PERIOD|STREAM_ID|RAW|BRANCH_STACK|REGS_USER|STACK_USER|` +
		`IDENTIFIER|REGS_INTR|DATA_SRC|WEIGHT|PHYS_ADDR|AUX|CGROUP|DATA_PAGE_SIZE|CODE_PAGE_SIZE|` +
		`WEIGHT_STRUCT, read_format: TOTAL_TIME_ENABLED|TOTAL_TIME_RUNNING|ID|GROUP|` +
		`LOST, disabled: 1, inherit: 1, pinned: 1, exclusive: 1, exclude_user: 1, exclude_kernel: 1, exclude_hv: 1, ` +
		`exclude_idle: 1, mmap: 1, comm: 1, freq: 1, inherit_stat: 1, enable_on_exec: 1, task: 1, watermark: 1, ` +
		`precise_ip: 3, mmap_data: 1, sample_id_all: 1, exclude_host: 1, exclude_guest: 1, ` +
		`exclude_callchain_kernel: 1, exclude_callchain_user: 1, mmap2: 1, comm_exec: 1, use_clockid: 1, ` +
		`context_switch: 1, write_backward: 1, namespaces: 1, ksymbol: 1, bpf_event: 1, aux_output: 1, cgroup: ` +
		`1, text_poke: 1, build_id: 1, inherit_thread: 1, remove_on_exec: 1, sigtrap: 1, defer_callchain: 1, ` +
		`defer_output: 1, { wakeup_events, wakeup_watermark }: 7, bp_type: 3, { bp_addr, config1 }: 0x1234, { ` +
		`bp_len, config2 }: 0x77, branch_sample_type: USER|` +
		`KERNEL|HV|ANY|ANY_CALL|ANY_RETURN|IND_CALL|ABORT_TX|IN_TX|NO_TX|COND|CALL_STACK|IND_JUMP|CALL|` +
		`NO_FLAGS|NO_CYCLES|TYPE_SAVE|HW_INDEX|PRIV_SAVE|` +
		`COUNTERS, sample_regs_user: 0xabc, sample_stack_user: 8192, clockid: -3, sample_regs_intr: 0x33, ` +
		`aux_watermark: 99, sample_max_stack: 12, aux_sample_size: 55, sig_data: 153, aux_pause: 1, aux_resume: 1`
	same(t, strings.ReplaceAll(strings.Join(parts, ", "), ", ", ",\n"), strings.ReplaceAll(want, ", ", ",\n"))
}

// Numbers are named after this machine's PMUs and tracepoints, as by perf 7.3.
func TestMachineNames(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"msr/type": "10\n", "software/type": "1\n",
		"events/skb/kfree_skb/id": "2310\n", "events/skb/other/id": "2311\n"} {
		path = filepath.Join(dir, "bus/event_source/devices", path)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SYSFS_PATH", dir)
	t.Setenv("TRACEFS_PATH", filepath.Join(dir, "bus/event_source/devices"))
	f := &format.File{Order: format.LittleEndian}
	for _, tc := range []struct {
		attr        format.Attr
		typ, config string
	}{
		{format.Attr{Type: format.TypeHardware, Config: 1}, "0 (PERF_TYPE_HARDWARE)",
			"0x1 (PERF_COUNT_HW_INSTRUCTIONS)"},
		{format.Attr{Type: format.TypeHardware, Config: 0x63}, "0 (PERF_TYPE_HARDWARE)", "0x63"},
		{format.Attr{Type: format.TypeHardware, Config: 0xa00000000}, "0 (PERF_TYPE_HARDWARE)",
			"0xa00000000 (msr/PERF_COUNT_HW_CPU_CYCLES/)"},
		{format.Attr{Type: format.TypeHardware, Config: 0x700000000}, "0 (PERF_TYPE_HARDWARE)",
			"0x700000000 (PERF_COUNT_HW_CPU_CYCLES)"},
		{format.Attr{Type: format.TypeHardware, Config: 0x100000063}, "0 (PERF_TYPE_HARDWARE)",
			"0x100000063 (software/config=0x100000063/)"},
		{format.Attr{Type: format.TypeHWCache, Config: 0x400010203}, "3 (PERF_TYPE_HW_CACHE)",
			"0x400010203 (cpu/PERF_COUNT_HW_CACHE_RESULT_MISS | PERF_COUNT_HW_CACHE_OP_PREFETCH | " +
				"PERF_COUNT_HW_CACHE_DTLB/)"},
		{format.Attr{Type: format.TypeHWCache, Config: 7}, "3 (PERF_TYPE_HW_CACHE)", "0x7"},
		{format.Attr{Type: format.TypeRaw, Config: 0x1cd}, "4 (cpu)", "0x1cd"},
		{format.Attr{Type: format.TypeBreakpoint}, "5 (PERF_TYPE_BREAKPOINT)", "0"},
		{format.Attr{Type: 6}, "6", "0"},
		{format.Attr{Type: 10, Config: 2}, "10 (msr)", "0x2"},
		{format.Attr{Type: format.TypeTracepoint, Config: 2310, Name: "skb:kfree_skb"}, "2 (PERF_TYPE_TRACEPOINT)",
			"0x906 (skb:kfree_skb)"},
		{format.Attr{Type: format.TypeTracepoint, Config: 2311, Name: "skb:kfree_skb"}, "2 (PERF_TYPE_TRACEPOINT)",
			"0x907"},
		{format.Attr{Type: format.TypeTracepoint, Config: 2310, Name: "../skb:kfree_skb"}, "2 (PERF_TYPE_TRACEPOINT)",
			"0x906"},
	} {
		if got := typeText(tc.attr.Type); got != tc.typ {
			t.Errorf("type %d: %q, want %q", tc.attr.Type, got, tc.typ)
		}
		if got := configText(&tc.attr, tracepointName(f, &tc.attr)); got != tc.config {
			t.Errorf("type %d: config %q, want %q", tc.attr.Type, got, tc.config)
		}
	}
}

func TestEventGroups(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for _, tc := range []struct {
		list []format.Group
		want string
	}{
		{nil, "a b c d"},
		{[]format.Group{{Name: "{anon_group}", Leader: 0, Members: 2}, {Name: "two", Leader: 2, Members: 2}},
			"{a,b} two{c,d}"},
		{[]format.Group{{Name: "{anon_group}", Leader: 1, Members: 2}}, "a {b,c} d"},
		{[]format.Group{{Name: "x", Leader: 2, Members: 1<<32 - 1}}, "a b x{c,d}"},
		{[]format.Group{{Name: "x", Leader: 1, Members: 0}, {Name: "y", Leader: 1, Members: 2}}, "a b c d"},
		{[]format.Group{{Name: "x", Leader: 1<<32 - 1, Members: 2}}, "a b c d"},
	} {
		var got []string
		for _, g := range eventGroups(names, tc.list) {
			got = append(got, g.String())
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%v: %s, want %s", tc.list, text, tc.want)
		}
	}
}
