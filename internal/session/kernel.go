package session

import (
	"strings"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

// kernelShort is perf's name of the kernel if the list of build IDs contains the kernel's file.
const kernelShort = "[kernel.vmlinux]"

// kernel holds the kernel's mappings: core text, modules, BPF programs and trampolines.
type kernel struct {
	maps *maps
	text *Map // of the kernel itself, nil before the MMAP record
	// listed holds the kernel and modules of the list of build IDs, by perf's names for them, because perf prints
	// the list's paths.
	listed map[string]DSO
}

// note records an entry of the list of build IDs
// (__event_process_build_id of tools/perf/util/header.c).
func (k *kernel) note(e *format.BuildIDEntry) {
	name, short := dso.KernelName, ""
	switch kind := dso.KindOf(e.Filename); {
	case isModule(e.Filename):
		name = kernelDSOName(e.Filename)
		short = name
	case kind == dso.KindVDSO || kind == dso.KindVsyscall:
		return
	case strings.Contains(e.Filename, "vmlinux"):
		short = kernelShort
	}
	if _, ok := k.listed[name]; !ok {
		k.listed[name] = DSO{Name: e.Filename, Short: short, BuildID: dso.NewBuildID(e.BuildID)}
	}
}

// isModule reports whether a name is a module's, a file or "[name]", rather than
// the kernel's (is_kernel_module of tools/perf/util/dso.c).
func isModule(name string) bool {
	switch dso.KindOf(name) {
	case dso.KindKernel, dso.KindVDSO, dso.KindVsyscall:
		return false
	}
	return strings.HasPrefix(name, "[") || strings.HasSuffix(trimCompression(name), ".ko")
}

func trimCompression(name string) string {
	for _, ext := range [...]string{".gz", ".xz", ".zst"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// mmap adds a mapping of the kernel or of a module, unless the addresses are unknown.
func (k *kernel) mmap(r *format.Mmap, id dso.BuildID) *Map {
	name := kernelDSOName(r.Filename)
	m := &Map{Start: r.Start, End: r.Start + r.Len, Pgoff: r.Pgoff, DSO: &DSO{Name: name, BuildID: id}}
	if listed, ok := k.listed[name]; ok {
		m.DSO = &listed
	}
	if name != dso.KernelName && (r.Start == 0 || r.Len == 0) {
		return m // /proc/modules hid the address from the recorder (kernel.kptr_restrict)
	}
	if r.Len == 0 || m.End < m.Start {
		m.End = 1<<64 - 1 // older recorders did not write the kernel's size
	}
	k.maps = k.maps.with(m)
	if name == dso.KernelName {
		k.text = m
	}
	return m
}

// kernelDSOName converts the name of a kernel mapping, "[kernel.kallsyms]_text" or
// the path of a module, to perf's name for the DSO.
func kernelDSOName(name string) string {
	if dso.KindOf(name) == dso.KindKernel {
		return dso.KernelName
	}
	if strings.HasPrefix(name, "[") {
		return name
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	base = strings.TrimSuffix(trimCompression(base), ".ko")
	return "[" + strings.ReplaceAll(base, "-", "_") + "]"
}

func (m *machine) ksymbol(r *format.KSymbol) {
	k := &m.kernel
	old := k.maps.find(r.Addr)
	if r.Flags&format.KSymbolUnregister != 0 {
		if old != nil && old.symbol != nil {
			k.remove(old)
		}
		return
	}
	if old != nil && old.symbol == nil {
		return // part of the kernel or of a module, whose symbols name it
	}
	code := &Map{Start: r.Addr, End: r.Addr + uint64(r.Len), DSO: &DSO{Name: r.Name}}
	if code.End <= code.Start {
		return
	}
	code.symbol = &symbolize.Symbol{Start: code.Start, End: code.End, Name: r.Name, Raw: r.Name}
	code.code = m.bpfCode(code.symbol)
	k.maps = k.maps.with(code)
}

func (k *kernel) remove(m *Map) {
	k.maps = k.maps.without(m)
}

// RecordedKernel returns the recorded kernel's build ID, and the name and address of the reference symbol, as
// symbolize.Options need them. They are in an MMAP record before the first sample.
func RecordedKernel(f *format.File) (id dso.BuildID, ref string, addr uint64) {
	for raw := range f.Head() {
		if raw.Type != format.TypeMmap && raw.Type != format.TypeMmap2 {
			continue
		}
		rec, err := f.Record(raw)
		m, ok := rec.(*format.Mmap)
		if err != nil || !ok || m.Misc&format.MiscCPUModeMask != format.MiscKernel {
			continue
		}
		if name, found := strings.CutPrefix(m.Filename, dso.KernelName); found {
			return kernelBuildID(f, m), name, m.Pgoff
		}
	}
	return dso.BuildID{}, "", 0
}

// listedKernel returns the kernel of the list of build IDs.
func listedKernel(f *format.File) kernel {
	k := kernel{maps: &maps{}, listed: map[string]DSO{}}
	entries, _ := f.BuildIDs() // ends at a damaged entry
	for i := range entries {
		if entries[i].Misc&format.MiscCPUModeMask == format.MiscKernel {
			k.note(&entries[i])
		}
	}
	return k
}

// kernelBuildID returns the kernel's build ID from the kernel's mapping, or from the BUILD_ID section.
func kernelBuildID(f *format.File, m *format.Mmap) dso.BuildID {
	if k := listedKernel(f); len(m.BuildID) == 0 {
		return k.listed[dso.KernelName].BuildID
	}
	return dso.NewBuildID(m.BuildID)
}

// IsKernel reports whether the DSO is the kernel itself, not a module. Symbols of the kernel are at addresses,
// symbols of modules at offsets.
func (d *DSO) IsKernel() bool { return d.Name == dso.KernelName || d.Short == kernelShort }
