package synth

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/record/event"
	"gperf/record/tracefs"
)

// Recording holds the data for the feature sections about the recording itself.
type Recording struct {
	Version     string   // of the recorder
	Cmdline     []string // of the recorder
	Events      []event.Event
	Attrs       []format.Attr
	UseClockID  bool
	ClockID     int32
	ClockOffset *uint64 // without UseClockID: see perfevent.ClockOffset; nil: unknown
	Tracefs     *tracefs.FS
	Tracepoints []tracefs.Described
}

// EarlySections returns the feature sections whose contents are known when the recording
// starts. It omits those that this machine does not provide.
func EarlySections(r *Recording) ([]format.Section, error) {
	var u unix.Utsname
	unix.Uname(&u)
	var l []format.Section
	str := func(f format.Feature, s string) {
		if s != "" {
			l = append(l, format.StringSection(f, s))
		}
	}
	str(format.FeatureHostname, unix.ByteSliceToString(u.Nodename[:]))
	str(format.FeatureOSRelease, unix.ByteSliceToString(u.Release[:]))
	str(format.FeatureVersion, r.Version)
	str(format.FeatureArch, unix.ByteSliceToString(u.Machine[:]))
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		desc, id := parseCPUInfo(string(info))
		str(format.FeatureCPUDesc, desc)
		str(format.FeatureCPUID, id)
	}
	if kb := memTotal("/proc/meminfo", "MemTotal:"); kb != 0 {
		l = append(l, format.Uint64Section(format.FeatureTotalMem, kb))
	}
	if len(r.Cmdline) > 0 {
		l = append(l, format.StringsSection(format.FeatureCmdline, r.Cmdline))
	}
	l = append(l, format.EventDescSection(r.Attrs))
	if g := groups(r.Events); len(g) > 0 {
		l = append(l, format.GroupDescSection(g))
	}
	l = append(l, cpuSections()...)
	if nodes := numaNodes(); len(nodes) > 0 {
		l = append(l, format.NUMASection(nodes))
	}
	if pmus := pmus(); len(pmus) > 0 {
		l = append(l, format.PMUMappingsSection(pmus))
	}
	if r.UseClockID {
		l = append(l, clockSections(r.ClockID)...)
	} else if r.ClockOffset != nil {
		l = append(l, perfClockSection(*r.ClockOffset)...)
	}
	tracing, err := r.Tracefs.Data(r.Tracepoints)
	if err != nil {
		return nil, fmt.Errorf("reading tracepoint formats: %w", err)
	}
	if tracing != nil {
		l = append(l, tracing.Section())
	}
	return l, nil
}

// groups returns the event groups with members.
func groups(events []event.Event) (l []format.Group) {
	for i := range events {
		switch {
		case !events[i].Member:
		case events[i-1].Member:
			l[len(l)-1].Members++
		default:
			name := cmp.Or(events[i-1].Group, "{anon_group}")
			l = append(l, format.Group{Name: name, Leader: uint32(i - 1), Members: 2})
		}
	}
	return l
}

// parseCPUInfo returns the processor's name, and perf's id of it: vendor, family, model,
// stepping. Both are empty on architectures other than x86.
func parseCPUInfo(info string) (desc, id string) {
	first, _, _ := strings.Cut(info, "\n\n")
	m := map[string]string{}
	for line := range strings.Lines(first) {
		key, value, _ := strings.Cut(line, ":")
		m[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if m["vendor_id"] != "" {
		id = strings.Join([]string{m["vendor_id"], m["cpu family"], m["model"], m["stepping"]}, ",")
	}
	return m["model name"], id
}

// memTotal returns the kB after key in a meminfo file, 0 if the key is missing.
func memTotal(path, key string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), key)
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.ParseUint(f[0], 10, 64)
	return kb
}

const cpuDir = "/sys/devices/system/cpu"

// cpuSections returns NRCPUS, CPU_TOPOLOGY and CACHE.
func cpuSections() []format.Section {
	online, err := OnlineCPUs()
	if err != nil {
		return nil
	}
	present := online
	if p, err := procfs.ParseCPUList(sysfs(cpuDir, "present")); err == nil {
		present = p
	}
	l := []format.Section{format.NrCPUs{Available: uint32(len(present)), Online: uint32(len(online))}.Section()}
	topo := format.CPUTopology{}
	var caches []format.Cache
	for _, cpu := range present {
		dir := fmt.Sprintf("%s/cpu%d", cpuDir, cpu)
		topo.CPUs = append(topo.CPUs, format.CPUPlace{
			Core: sysfsID(dir, "topology/core_id"), Die: sysfsID(dir, "topology/die_id"),
			Package: sysfsID(dir, "topology/physical_package_id")})
		addTo(&topo.Packages, sysfs(dir, "topology/core_siblings_list"))
		addTo(&topo.Dies, sysfs(dir, "topology/die_cpus_list"))
		addTo(&topo.Cores, sysfs(dir, "topology/thread_siblings_list"))
		addTo(&caches, cpuCaches(dir)...)
	}
	if len(topo.Packages) > 0 && len(topo.Cores) > 0 {
		l = append(l, topo.Section())
	}
	if len(caches) > 0 {
		slices.SortStableFunc(caches, func(a, b format.Cache) int { return int(a.Level) - int(b.Level) })
		l = append(l, format.CacheSection(caches))
	}
	return l
}

// OnlineCPUs returns the CPUs that are online.
func OnlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if errors.Is(err, fs.ErrNotExist) {
		return []int{0}, nil // a kernel for one CPU
	}
	if err != nil {
		return nil, fmt.Errorf("list of CPUs: %w", err)
	}
	return procfs.ParseCPUList(strings.TrimSpace(string(b)))
}

// addTo appends those values that are new and not the zero value.
func addTo[T comparable](l *[]T, values ...T) {
	var none T
	for _, v := range values {
		if v != none && !slices.Contains(*l, v) {
			*l = append(*l, v)
		}
	}
}

func cpuCaches(dir string) (l []format.Cache) {
	for i := 0; ; i++ {
		d := fmt.Sprintf("%s/cache/index%d", dir, i)
		if _, err := os.Stat(d); err != nil {
			return l
		}
		l = append(l, format.Cache{
			Level: sysfsID(d, "level"), LineSize: sysfsID(d, "coherency_line_size"),
			Sets: sysfsID(d, "number_of_sets"), Ways: sysfsID(d, "ways_of_associativity"),
			Type: sysfs(d, "type"), Size: sysfs(d, "size"), CPUs: sysfs(d, "shared_cpu_list")})
	}
}

// sysfs reads a file of one line; it returns "" if there is none.
func sysfs(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// sysfsID reads a number; it returns 0 if sysfs has none, or -1.
func sysfsID(dir, name string) uint32 {
	n, err := strconv.ParseUint(sysfs(dir, name), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

func numaNodes() (l []format.NUMANode) {
	const root = "/sys/devices/system/node"
	ids, err := procfs.ParseCPUList(sysfs(root, "online"))
	if err != nil {
		return nil
	}
	for _, id := range ids {
		dir := fmt.Sprintf("%s/node%d", root, id)
		l = append(l, format.NUMANode{Node: uint32(id),
			Total: memTotal(dir+"/meminfo", "MemTotal:"), Free: memTotal(dir+"/meminfo", "MemFree:"),
			CPUs: sysfs(dir, "cpulist")})
	}
	return l
}

func pmus() (l []format.PMU) {
	const root = "/sys/bus/event_source/devices"
	dirs, err := os.ReadDir(root)
	if err != nil {
		return nil
	}
	for _, d := range dirs {
		if t, err := strconv.ParseUint(sysfs(root, d.Name()+"/type"), 10, 32); err == nil {
			l = append(l, format.PMU{Type: uint32(t), Name: d.Name()})
		}
	}
	return l
}

// clockSections returns CLOCKID, the clock's resolution, and CLOCK_DATA, which converts its
// times into wall-clock time.
func clockSections(id int32) []format.Section {
	var res, wall, clock unix.Timespec
	if unix.ClockGetres(id, &res) != nil || unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil ||
		unix.ClockGettime(id, &clock) != nil {
		return nil
	}
	return []format.Section{
		format.Uint64Section(format.FeatureClockID, uint64(res.Nano())),
		format.ClockDataSection(id, uint64(wall.Nano()), uint64(clock.Nano())),
	}
}

// perfClockSection returns CLOCK_DATA of the clock that perf uses by default; offset is the number to add
// to times of CLOCK_MONOTONIC for the times of the clock.
func perfClockSection(offset uint64) []format.Section {
	var wall, clock unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &clock) != nil {
		return nil
	}
	return []format.Section{format.ClockDataSection(-1, uint64(wall.Nano()), uint64(clock.Nano())+offset)}
}

// BuildIDSection returns the table of build IDs for kernels that do not put them into MMAP2
// records: the files of the kernel, its modules and all mapped files.
func BuildIDSection(files []string) format.Section {
	var l []format.BuildIDEntry
	add := func(misc format.Misc, name string, id dso.BuildID, err error) {
		if err == nil {
			l = append(l, format.BuildIDEntry{Misc: misc, PID: -1, BuildID: id.Bytes(), Filename: name})
		}
	}
	id, err := dso.KernelBuildID()
	add(format.MiscKernel, "[kernel.kallsyms]", id, err)
	if modules, err := procfs.Modules(); err == nil {
		paths := modulePaths()
		for _, m := range modules {
			id, err := dso.ModuleBuildID(m.Name)
			add(format.MiscKernel, moduleFile(m, paths), id, err)
		}
	}
	for _, f := range files {
		id, err := dso.BuildIDOf(f)
		add(format.MiscUser, f, id, err)
	}
	return format.BuildIDSection(l)
}
