package script

import (
	"bufio"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"gperf/format"
)

// featureNames are perf's names of the features, by number.
var featureNames = [...]string{
	1: "TRACING_DATA", "BUILD_ID", "HOSTNAME", "OSRELEASE", "VERSION", "ARCH", "NRCPUS", "CPUDESC", "CPUID", "TOTAL_MEM",
	"CMDLINE", "EVENT_DESC", "CPU_TOPOLOGY", "NUMA_TOPOLOGY", "BRANCH_STACK", "PMU_MAPPINGS", "GROUP_DESC", "AUXTRACE",
	"STAT", "CACHE", "SAMPLE_TIME", "MEM_TOPOLOGY", "CLOCKID", "DIR_FORMAT", "BPF_PROG_INFO", "BPF_BTF", "COMPRESSED",
	"CPU_PMU_CAPS", "CLOCK_DATA", "HYBRID_TOPOLOGY", "PMU_CAPS", "CPU_DOMAIN_INFO", "E_MACHINE", "CACHELINE_SIZE",
}

// Header prints what the file says about the recording, as `perf script
// --header` does. recorded is the time of the file's last change; full adds
// what is long.
func Header(w *bufio.Writer, f *format.File, recorded time.Time, full bool) {
	h := header{w: w, f: f, full: full}
	h.line("========")
	h.line("captured on    : %s", recorded.Format(time.ANSIC))
	h.line("header version : 1")
	h.line("data offset    : %d", f.DataOffset())
	h.line("data size      : %d", f.DataSize())
	h.line("feat offset    : %d", f.FeatureOffset())
	var missing strings.Builder
	for n := format.Feature(1); n <= format.LastFeature; n++ {
		if f.Has(n) {
			h.feature(n)
		} else {
			missing.WriteString(featureNames[n] + " ")
		}
	}
	h.line("missing features: %s", missing.String())
	h.line("========")
	fmt.Fprintln(w, "#")
}

type header struct {
	w    *bufio.Writer
	f    *format.File
	full bool
}

func (h *header) line(text string, args ...any) { fmt.Fprintf(h.w, "# "+text+"\n", args...) }

func (h *header) feature(n format.Feature) {
	if texts := map[format.Feature]string{
		format.FeatureHostname: "hostname", format.FeatureOSRelease: "os release", format.FeatureVersion: "perf version",
		format.FeatureArch: "arch", format.FeatureCPUDesc: "cpudesc", format.FeatureCPUID: "cpuid",
	}; texts[n] != "" {
		h.line("%s : %s", texts[n], h.f.String(n))
		return
	}
	switch n {
	case format.FeatureCPUTopology, format.FeatureNUMATopology, format.FeatureCache, format.FeatureMemTopology:
		if h.full {
			h.topology(n)
		} else {
			h.line("%s info available, use -I to display", featureNames[n])
		}
	case format.FeatureNrCPUs:
		cpus, _ := h.f.NrCPUs()
		h.line("nrcpus online : %d", cpus.Online)
		h.line("nrcpus avail : %d", cpus.Available)
	case format.FeatureTotalMem:
		if v := h.f.Uint64s(n, 1); v != nil {
			h.line("total memory : %d kB", v[0])
		}
	case format.FeatureCmdline:
		h.line("cmdline : %s", cmdline(h.f.Cmdline()))
	case format.FeatureEventDesc:
		for i := range h.f.Attrs {
			h.event(i)
		}
	case format.FeaturePMUMappings:
		h.pmus()
	case format.FeatureSampleTime, format.FeatureClockID, format.FeatureClockData:
		h.times(n)
	case format.FeatureBPFProgInfo:
		h.emptyCount(n, "bpf_prog_info")
	case format.FeatureBPFBTF:
		h.emptyCount(n, "btf info")
	case format.FeatureCPUPMUCaps:
		caps, ok := h.f.PMUCaps()
		if ok && len(caps) == 0 {
			caps = []string{"not available"}
		}
		h.line("cpu pmu capabilities: %s", strings.Join(caps, ", "))
	case format.FeatureEMachine:
		if v := h.f.Uint32s(n, 2); v != nil {
			h.line("e_machine : %d", v[0])
			h.line("  e_flags : %d", v[1])
		}
	case format.FeatureCacheLine:
		if v := h.f.Uint32s(n, 1); v != nil {
			h.line("cacheline size: %d", v[0])
		}
	}
}

// emptyCount tells of a list that is empty. What is in it is not decoded.
func (h *header) emptyCount(n format.Feature, what string) {
	if data := h.f.Sections[n]; len(data) >= 4 && h.f.Order.Uint32(data) == 0 {
		h.line("%s empty", what)
	}
}

// cmdline joins the arguments; perf puts a quote's backslash and a blank behind
// each.
func cmdline(args []string) string {
	var b strings.Builder
	for _, a := range args {
		b.WriteString(strings.ReplaceAll(a, "'", `\'`) + " ")
	}
	return b.String()
}

func (h *header) pmus() {
	list := h.f.PMUMappings()
	if len(list) == 0 {
		h.line("pmu mappings: not available")
		return
	}
	var words []string
	for _, p := range list {
		words = append(words, fmt.Sprintf("%s = %d", p.Name, p.Type))
	}
	h.line("pmu mappings: %s", strings.Join(words, ", "))
}

func (h *header) times(n format.Feature) {
	switch n {
	case format.FeatureSampleTime:
		if v := h.f.Uint64s(n, 2); v != nil {
			h.line("time of first sample : %d.%06d", v[0]/1e9, v[0]%1e9/1e3)
			h.line("time of last sample : %d.%06d", v[1]/1e9, v[1]%1e9/1e3)
			h.line("sample duration : %10.3f ms", float64(v[1]-v[0])/1e6)
		}
	case format.FeatureClockID:
		if v := h.f.Uint64s(n, 1); v != nil {
			h.line("clockid frequency: %d MHz", v[0]*1000)
		}
	case format.FeatureClockData:
		d, ok := h.f.ClockData()
		if !ok {
			return
		}
		name := clockName(d.ClockID)
		tod := time.Unix(0, int64(d.TimeOfDay))
		h.line("clockid: %s (%d)", name, d.ClockID)
		h.line("reference time: %s = %d.%06d (TOD) = %d.%09d (%s)", tod.Format("2006-01-02 15:04:05.000000"),
			d.TimeOfDay/1e9, d.TimeOfDay%1e9/1e3, d.ClockTime/1e9, d.ClockTime%1e9, name)
	}
}

// clockName names a clockid_t of clock_gettime(2).
func clockName(id uint32) string {
	names := [...]string{"realtime", "monotonic", "process_cputime_id", "thread_cputime_id", "monotonic_raw",
		"realtime_coarse", "monotonic_coarse", "boottime", "realtime_alarm", "boottime_alarm", "", "tai"}
	if id < uint32(len(names)) && names[id] != "" {
		return names[id]
	}
	return "Not found"
}

func (h *header) topology(n format.Feature) {
	switch n {
	case format.FeatureCPUTopology:
		h.cpus()
	case format.FeatureNUMATopology:
		nodes, _ := h.f.NUMATopology()
		for _, node := range nodes {
			h.line("node%d meminfo  : total = %d kB, free = %d kB", node.Node, node.Total, node.Free)
			h.line("node%d cpu list : %s", node.Node, node.CPUs)
		}
	case format.FeatureCache:
		h.line("CPU cache info:")
		caches, _ := h.f.Caches()
		for _, c := range caches {
			h.line(" L%d %-15s %8s [%s]", c.Level, c.Type, c.Size, c.CPUs)
		}
	case format.FeatureMemTopology:
		h.memory()
	}
}

func (h *header) cpus() {
	t, ok := h.f.CPUTopology()
	if !ok {
		return
	}
	sockets, dies := "sibling sockets :", "sibling dies    :"
	if len(t.Dies) == 0 {
		sockets = "sibling cores   :"
	}
	for _, l := range t.Packages {
		h.line("%s %s", sockets, l)
	}
	for _, l := range t.Dies {
		h.line("%s %s", dies, l)
	}
	for _, l := range t.Cores {
		h.line("sibling threads : %s", l)
	}
	for i, c := range t.CPUs {
		if len(t.Dies) > 0 {
			h.line("CPU %d: Core ID %d, Die ID %d, Socket ID %d", i, c.Core, c.Die, c.Package)
		} else {
			h.line("CPU %d: Core ID %d, Socket ID %d", i, c.Core, c.Package)
		}
	}
}

func (h *header) memory() {
	size, nodes, ok := h.f.MemTopology()
	if !ok {
		return
	}
	h.line("memory nodes (nr %d, block size 0x%x):", len(nodes), size)
	for _, n := range nodes {
		blocks := 0
		for i := range n.Blocks.Len() {
			blocks += bits.OnesCount64(n.Blocks.At(i))
		}
		h.line("   %d [%s]: %s", n.Node, sizeText(uint64(blocks)*size), bitList(n.Blocks))
	}
}

// sizeText is a size in bytes in the largest unit that leaves it above 0.
func sizeText(v uint64) string {
	units := "BKMGTPE"
	for v >= 1024 && len(units) > 1 {
		v, units = v/1024, units[1:]
	}
	return fmt.Sprintf("%d%c", v, units[0])
}

// bitList lists the bits that are set: "0-23,32-199".
func bitList(w format.Words) string {
	set := func(i int) bool { return i/64 < w.Len() && w.At(i/64)>>(i%64)&1 != 0 }
	var parts []string
	for i := 0; i < w.Len()*64; i++ {
		if !set(i) {
			continue
		}
		from := i
		for set(i + 1) {
			i++
		}
		if from == i {
			parts = append(parts, fmt.Sprint(i))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", from, i))
		}
	}
	return strings.Join(parts, ",")
}
