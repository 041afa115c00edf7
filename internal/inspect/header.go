// Package inspect prints the contents of a recording apart from its samples: its header,
// events, build IDs and the number of records, as perf's commands print them.
package inspect

import (
	"bufio"
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"gperf/format"
)

// Header prints the file's description of the recording, as `perf script --header` does. recorded is the time of
// the file's last change; full adds the long sections and simpleperf's sections.
func Header(w *bufio.Writer, f *format.File, recorded time.Time, full bool) {
	h := header{w: w, f: f, full: full}
	h.line("========")
	h.line("captured on    : %s", recorded.Format(time.ANSIC))
	h.line("header version : %d", f.Version-1) // as perf counts them
	h.line("data offset    : %d", f.DataOffset())
	h.line("data size      : %d", f.DataSize())
	h.line("feat offset    : %d", f.FeatureOffset())
	if f.Pipe { // perf prints features in file order
		h.end()
		h.features()
		return
	}
	missing := h.features()
	h.line("missing features: %s", missing)
	h.end()
}

func (h *header) end() {
	h.line("========")
	fmt.Fprintln(h.w, "#")
}

type header struct {
	w    *bufio.Writer
	f    *format.File
	full bool
}

func (h *header) line(text string, args ...any) { fmt.Fprintf(h.w, "# "+text+"\n", args...) }

// features prints the features in the file, and returns perf's names of the missing features.
func (h *header) features() (missing string) {
	for n := format.Feature(1); n <= format.LastFeature; n++ {
		if !h.f.Has(n) {
			missing += n.String() + " "
		} else if err := h.f.FeatureError(n); err == nil {
			h.feature(n)
		} else if n == format.FeatureEventDesc {
			h.line("event desc: not available or unable to read")
		} else if len(h.f.Sections[n]) > 0 { // perf stops at such a file
			h.line("%s: %v", n, err)
		}
	}
	if cost, ok := h.f.Cost(); ok {
		h.line("cost of recording : %s", CostText(&cost))
	} else if err := h.f.FeatureError(format.FeatureCost); err != nil {
		h.line("cost of recording : %v", err)
	}
	if h.full {
		h.simpleperf()
	}
	return missing
}

func (h *header) feature(n format.Feature) {
	if text, ok := stringFeatures[n]; ok {
		h.line("%s : %s", text, h.f.String(n))
		return
	}
	switch n {
	case format.FeatureCPUTopology, format.FeatureNUMATopology, format.FeatureCache, format.FeatureMemTopology,
		format.FeatureHybrid, format.FeatureCPUDomain:
		if h.full {
			h.topology(n)
		} else {
			h.line("%s info available, use -I to display", n)
		}
	case format.FeatureNrCPUs:
		cpus, _ := h.f.NrCPUs()
		h.line("nrcpus online : %d", cpus.Online)
		h.line("nrcpus avail : %d", cpus.Available)
	case format.FeatureCmdline:
		h.line("cmdline : %s", cmdline(h.f.Cmdline()))
	case format.FeatureEventDesc:
		events, _ := h.f.EventDesc()
		for i := range events {
			h.event(&events[i])
		}
	case format.FeaturePMUMappings:
		h.pmus()
	case format.FeatureGroupDesc:
		h.groups()
	case format.FeatureSampleTime, format.FeatureClockData:
		h.times(n)
	case format.FeatureBPFProgInfo, format.FeatureBPFBTF:
		h.bpf(n)
	case format.FeatureCPUPMUCaps, format.FeaturePMUCaps:
		h.caps(n)
	default:
		h.small(n)
	}
}

// stringFeatures are perf's headings of the features that are a string.
var stringFeatures = map[format.Feature]string{
	format.FeatureHostname: "hostname", format.FeatureOSRelease: "os release", format.FeatureVersion: "perf version",
	format.FeatureArch: "arch", format.FeatureCPUDesc: "cpudesc", format.FeatureCPUID: "cpuid",
}

// small prints the features of one or two numbers, and those without contents.
func (h *header) small(n format.Feature) {
	switch n {
	case format.FeatureTotalMem:
		h.line("total memory : %d kB", h.f.Uint64s(n, 1)[0])
	case format.FeatureBranchStack:
		h.line("contains samples with branch stack")
	case format.FeatureAuxtrace:
		h.line("contains AUX area data (e.g. instruction trace)")
	case format.FeatureStat:
		h.line("contains stat data")
	case format.FeatureClockID:
		h.line("clockid frequency: %d MHz", h.f.Uint64s(n, 1)[0]*1000)
	case format.FeatureDirFormat:
		h.line("directory data version : %d", h.f.Uint64s(n, 1)[0])
	case format.FeatureCompressed:
		c, _ := h.f.Compression()
		name := "Unknown"
		if c.Type == format.CompressionZstd {
			name = "Zstd"
		}
		h.line("compressed : %s, level = %d, ratio = %d", name, int32(c.Level), int32(c.Ratio))
	case format.FeatureEMachine:
		v := h.f.Uint32s(n, 2)
		h.line("e_machine : %d", v[0])
		h.line("  e_flags : %d", v[1])
	case format.FeatureCacheLine:
		h.line("cacheline size: %d", h.f.Uint32s(n, 1)[0])
	}
}

// groups prints the groups of events: "name{leader,member}".
func (h *header) groups() {
	var names []string
	for i := range h.f.Attrs {
		names = append(names, h.f.EventName(i))
	}
	list, _ := h.f.EventGroups()
	for _, g := range eventGroups(names, list) {
		if len(g.members) > 1 {
			h.line("group: %s", g)
		}
	}
}

func (h *header) bpf(n format.Feature) {
	if n == format.FeatureBPFBTF {
		ids, _ := h.f.BTFs()
		for _, id := range ids {
			h.line("btf info of id %d", id)
		}
		if len(ids) == 0 {
			h.line("btf info empty")
		}
		return
	}
	progs, _ := h.f.BPFProgs()
	if len(progs) == 0 {
		h.line("bpf_prog_info empty")
	}
	for _, p := range progs {
		switch len(p.Funcs) {
		case 0:
		case 1:
			h.line("bpf_prog_info %d: %s addr 0x%x size %d", p.ID, p.Funcs[0].Name, p.Funcs[0].Addr, p.Funcs[0].Size)
		default:
			h.line("bpf_prog_info %d:", p.ID)
			for i, f := range p.Funcs {
				h.line("\tsub_prog %d: %s addr 0x%x size %d", i, f.Name, f.Addr, f.Size)
			}
		}
	}
}

func (h *header) caps(n format.Feature) {
	cpu, _ := h.f.CPUPMUCaps()
	if n == format.FeatureCPUPMUCaps {
		h.pmuCaps(cpu)
		return
	}
	list, _ := h.f.PMUCaps()
	for _, p := range list {
		h.pmuCaps(p)
	}
	ibs := slices.ContainsFunc(h.f.PMUMappings(), func(p format.PMU) bool { return p.Name == "ibs_op" })
	imprecise := slices.ContainsFunc(append(list, cpu), func(p format.PMUCaps) bool {
		return p.PMU == "cpu" && slices.Contains(p.Caps, "max_precise=0")
	})
	if ibs && imprecise && isX86(h.f.String(format.FeatureArch)) {
		h.line("AMD systems uses ibs_op// PMU for some precise events, e.g.: cycles:p, see the 'perf list' man page " +
			"for further details.")
	}
}

func (h *header) pmuCaps(p format.PMUCaps) {
	text := "not available"
	if len(p.Caps) > 0 {
		text = strings.Join(p.Caps, ", ")
	}
	h.line("%s pmu capabilities: %s", p.PMU, text)
}

func isX86(arch string) bool {
	return arch == "x86_64" || len(arch) == 4 && arch[0] == 'i' && arch[2:] == "86"
}

// simpleperf prints simpleperf's own sections, in gperf's own format.
func (h *header) simpleperf() {
	for _, m := range h.f.MetaInfo() {
		h.line("simpleperf meta_info : %s = %s", m.Key, strings.ReplaceAll(m.Value, "\n", `\n`))
	}
	types := [...]string{"kernel", "kernel module", "elf", "dex", "symbol map", "unknown"}
	by := "simpleperf"
	if h.f.Has(format.FeatureHiperfFiles) {
		by = "hiperf"
	}
	for _, s := range h.f.SymbolFiles() {
		h.line("%s file : %s, type %s, min vaddr %#x, %d symbols", by, s.Path,
			types[min(int(s.Type), len(types)-1)], s.MinVaddr, len(s.Symbols))
	}
	for _, u := range h.f.UnwindFiles() {
		h.line("simpleperf debug_unwind : %s, %d bytes", u.Path, u.Size)
	}
	for n := format.FeatureFile; n <= format.FeatureFile2; n++ {
		if err := h.f.FeatureError(n); err != nil {
			h.line("simpleperf: %v", err)
		}
	}
}

// cmdline joins the arguments; perf escapes quotes and puts a blank after each.
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
		v := h.f.Uint64s(n, 2)
		h.line("time of first sample : %d.%06d", v[0]/1e9, v[0]%1e9/1e3)
		h.line("time of last sample : %d.%06d", v[1]/1e9, v[1]%1e9/1e3)
		h.line("sample duration : %10.3f ms", float64(v[1]-v[0])/1e6)
	case format.FeatureClockData:
		d, _ := h.f.ClockData()
		name := clockName(d.ClockID)
		tod := time.Unix(0, int64(d.TimeOfDay))
		h.line("clockid: %s (%d)", name, d.ClockID)
		h.line("reference time: %s = %d.%06d (TOD) = %d.%09d (%s)", tod.Format("2006-01-02 15:04:05.000000"),
			d.TimeOfDay/1e9, d.TimeOfDay%1e9/1e3, d.ClockTime/1e9, d.ClockTime%1e9, name)
	}
}

// clockName names a clockid_t of clock_gettime(2), of those that perf can
// record with.
func clockName(id uint32) string {
	names := map[uint32]string{0: "realtime", 1: "monotonic", 4: "monotonic_raw", 7: "boottime", 11: "tai"}
	return cmp.Or(names[id], "(not found)")
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
	case format.FeatureHybrid:
		h.line("hybrid cpu system:")
		nodes, _ := h.f.HybridTopology()
		for _, node := range nodes {
			h.line("%s cpu list : %s", node.PMU, node.CPUs)
		}
	case format.FeatureCPUDomain:
		h.domains()
	}
}

func (h *header) cpus() {
	t, _ := h.f.CPUTopology()
	for _, l := range t.Packages {
		h.line("sibling sockets : %s", l)
	}
	for _, l := range t.Dies {
		h.line("sibling dies    : %s", l)
	}
	for _, l := range t.Cores {
		h.line("sibling threads : %s", l)
	}
	dies := len(t.Dies) > 0
	for i, c := range t.CPUs {
		if dies {
			h.line("CPU %d: Core ID %d, Die ID %d, Socket ID %d", i, int32(c.Core), int32(c.Die), int32(c.Package))
		} else {
			h.line("CPU %d: Core ID %d, Socket ID %d", i, int32(c.Core), int32(c.Package))
		}
	}
	switch {
	case len(t.CPUs) > 0:
	case dies:
		h.line("Core ID, Die ID and Socket ID information is not available")
	default:
		h.line("Core ID and Socket ID information is not available")
	}
}

func (h *header) domains() {
	d, _ := h.f.CPUDomains()
	h.line("schedstat version\t: %d", d.Version)
	h.line("Maximum sched domains\t: %d", d.Max)
	for _, cpu := range slices.SortedFunc(slices.Values(d.CPUs), func(a, b format.DomainCPU) int {
		return cmp.Compare(a.CPU, b.CPU)
	}) {
		h.line("cpu\t\t: %d", cpu.CPU)
		h.line("nr_domains\t: %d", len(cpu.Domains))
		for _, l := range slices.SortedFunc(slices.Values(cpu.Domains), func(a, b format.Domain) int {
			return cmp.Compare(a.Level, b.Level)
		}) {
			h.line("Domain\t\t: %d", l.Level)
			if d.Version >= 17 {
				h.line("Domain name      : %s", l.Name)
			}
			h.line("Domain cpu map   : %s", l.CPUMask)
			h.line("Domain cpu list  : %s", l.CPUs)
		}
	}
}

func (h *header) memory() {
	t, _ := h.f.MemTopology()
	h.line("memory nodes (nr %d, block size 0x%x):", len(t.Nodes), t.BlockSize)
	for _, n := range t.Nodes {
		blocks := 0
		for i := range n.Blocks.Len() {
			blocks += bits.OnesCount64(n.Blocks.At(i))
		}
		list := bitList(n.Blocks)
		h.line(" %3d [%s]: %s", n.Node, sizeText(uint64(blocks)*t.BlockSize), list[:min(len(list), memoryListSize)])
	}
}

// memoryListSize is the length at which perf cuts the list of a node's blocks.
const memoryListSize = 99

// sizeText is a size in bytes in perf's units: the next one from 2 on.
func sizeText(v uint64) string {
	units := "BKMG"
	for v/1024 > 1 && len(units) > 1 {
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
