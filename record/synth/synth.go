package synth

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/parallel"
	"gperf/internal/procfs"
)

// Synthesizer makes records that the kernel did not write, because their subjects existed before
// the recording: mappings of the kernel, processes and their mappings. They have no time, and
// so come before all others.
type Synthesizer struct {
	opts  Options
	buf   []byte
	found *found
}

// Options define which records to make.
type Options struct {
	IDSize     int // size of the sample id at the end of each record, in bytes
	Omit       Kinds
	Data       bool // include mappings without code
	Namespaces bool // include the namespaces of threads
	BuildIDs   bool // put build IDs into mappings
	// Kernel, if set, is used in place of reading /proc/kallsyms.
	Kernel KernelScan
	// Files, if set, collects the names of mapped files without BuildIDs.
	Files map[string]bool
	// Out receives complete records.
	Out func([]byte) error
}

// New returns a Synthesizer.
func New(o Options) *Synthesizer { return &Synthesizer{opts: o, found: newFound()} }

// Denied returns the number of processes whose mappings this user may not read.
func (s *Synthesizer) Denied() int { return int(s.found.denied.Load()) }

const flushSize = 1 << 16

// Kinds are kinds of synthesized records.
type Kinds uint8

const (
	Task Kinds = 1 << iota
	Mmap
	Cgroup
	All = Task | Mmap | Cgroup
)

// ParseKinds parses the argument of --synth, kinds with commas. Mappings are synthesized with
// their processes.
func ParseKinds(list string) (kinds Kinds, err error) {
	for kind := range strings.SplitSeq(list, ",") {
		switch kind {
		case "no":
			return 0, nil
		case "task":
			kinds |= Task
		case "mmap":
			kinds |= Task | Mmap
		case "cgroup":
			kinds |= Cgroup
		case "all":
			kinds = All
		default:
			return 0, fmt.Errorf("%q is not one of no, task, mmap, cgroup, all", kind)
		}
	}
	return kinds, nil
}

// Flush passes the records made so far to Out, if they have at least so many bytes.
func (s *Synthesizer) Flush(least int) error {
	if len(s.buf) < least || len(s.buf) == 0 {
		return nil
	}
	err := s.opts.Out(s.buf)
	s.buf = s.buf[:0]
	return err
}

// Kernel makes the records of the kernel, its modules and the code that it has generated, as far
// as kallsyms and /proc/modules show them. It reports whether kallsyms did.
func (s *Synthesizer) Kernel() (visible bool, err error) {
	read := s.opts.Kernel
	if read == nil {
		read = readKallsyms
	}
	k := read()
	if k.err != nil || k.text == 0 {
		return false, k.err
	}
	m := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: k.text, Len: k.end - k.text, Pgoff: k.text,
		Filename: "[kernel.kallsyms]" + k.name}
	if s.opts.BuildIDs {
		if id, err := dso.KernelBuildID(); err == nil {
			m.BuildID = id.Bytes()
		}
	}
	s.buf = m.Append(s.buf, s.opts.IDSize)
	if l, err := procfs.Modules(); err == nil {
		s.modules(l)
	}
	for _, sym := range k.generated {
		s.buf = sym.Append(s.buf, s.opts.IDSize)
	}
	return true, s.Flush(flushSize)
}

// KernelScan waits for what ScanKernel reads.
type KernelScan func() kernelText

// ScanKernel begins to read /proc/kallsyms, which takes some 50 ms. BPF programs that are loaded meanwhile may be
// missing.
func ScanKernel() KernelScan { return parallel.Later(readKallsyms) }

// readKallsyms reads /proc/kallsyms.
func readKallsyms() (k kernelText) {
	f, err := os.Open(procfs.Kallsyms)
	if err != nil {
		k.unopened = err
		return k
	}
	defer f.Close()
	if k, err = scanKallsyms(f); err != nil {
		k.err = fmt.Errorf("%s: %w", procfs.Kallsyms, err)
	}
	return k
}

// kernelText is the kernel's own text according to kallsyms.
type kernelText struct {
	name      string // name of the symbol at text
	text, end uint64
	generated []format.KSymbol // BPF programs, copies of instructions for kprobes, trampolines of ftrace

	unopened, err error // of opening and of reading kallsyms
}

// hiddenEnd is the end of the kernel if kallsyms hides it.
const hiddenEnd = ^uint64(0)

// scanKallsyms finds the start (_text, else _stext: perf's reference for relocation) and the
// end (_etext) of the kernel's code, and generated code. kallsyms has no sizes of this: each
// symbol is assumed to extend to the next one, or to the end of its page.
func scanKallsyms(r io.Reader) (k kernelText, err error) {
	var stext uint64
	for sym, err := range procfs.SymbolsWithSuffix(r, "_text", "_stext", "_etext",
		"\t[bpf]", "\t[__builtin__kprobes]", "\t[__builtin__ftrace]") {
		switch {
		case err != nil:
			return k, err
		case sym.Label == "_text":
			k.text = sym.Addr
		case sym.Label == "_stext":
			stext = sym.Addr
		case sym.Label == "_etext":
			k.end = sym.Addr
		case sym.Module() == "bpf":
			k.generated = append(k.generated, format.KSymbol{Addr: sym.Addr, Type: format.KSymbolBPF, Name: sym.Name()})
		case sym.Module() != "": // the kernel's records of such code have this type, too
			k.generated = append(k.generated, format.KSymbol{Addr: sym.Addr, Type: format.KSymbolOOL, Name: sym.Name()})
		}
	}
	k.name = "_text"
	if k.text == 0 {
		k.name, k.text = "_stext", stext
	}
	if k.end <= k.text { // hidden or implausible: assume that it extends to the modules
		k.end = hiddenEnd
	}
	slices.SortFunc(k.generated, func(a, b format.KSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := range k.generated {
		g := &k.generated[i]
		end := (g.Addr | 0xfff) + 1
		if i+1 < len(k.generated) {
			end = min(end, k.generated[i+1].Addr)
		}
		g.Len = uint32(end - g.Addr)
	}
	return k, nil
}

// moduleFile returns a module's file, or its name in brackets if none is installed.
func moduleFile(m procfs.Module, paths map[string]string) string {
	if path, ok := paths[m.Name]; ok {
		return path
	}
	return "[" + m.Name + "]"
}

func (s *Synthesizer) modules(l []procfs.Module) {
	if len(l) == 0 {
		return
	}
	paths := modulePaths()
	for _, m := range l {
		r := format.Mmap{Misc: format.MiscKernel, PID: -1, Start: m.Start, Len: m.Size, Filename: moduleFile(m, paths)}
		if s.opts.BuildIDs {
			if id, err := dso.ModuleBuildID(m.Name); err == nil {
				r.BuildID = id.Bytes()
			}
		}
		s.buf = r.Append(s.buf, s.opts.IDSize)
	}
}

// modulePaths returns the files of the installed modules by module name, in which _ replaces
// - of the file name.
func modulePaths() map[string]string {
	var u unix.Utsname
	unix.Uname(&u)
	root := "/lib/modules/" + unix.ByteSliceToString(u.Release[:])
	paths := map[string]string{}
	b, err := os.ReadFile(root + "/modules.dep")
	if err != nil {
		return paths
	}
	for line := range strings.Lines(string(b)) {
		file, _, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if !strings.HasPrefix(file, "/") {
			file = root + "/" + file
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".ko")
		paths[strings.ReplaceAll(name, "-", "_")] = file
	}
	return paths
}

// Thread makes the records of a thread.
func (s *Synthesizer) Thread(f format.Fork, comm string) {
	f.Ran = true
	s.buf = f.Append(s.buf, s.opts.IDSize)
	if s.opts.Namespaces {
		n := namespaces(f.PID, f.TID)
		s.buf = n.Append(s.buf, s.opts.IDSize)
	}
	c := format.Comm{PID: f.PID, TID: f.TID, Comm: comm}
	s.buf = c.Append(s.buf, s.opts.IDSize)
}

// MmapOf returns the record of a mapping as the kernel would write it.
func MmapOf(pid int, p procfs.Mapping) format.Mmap {
	m := format.Mmap{V2: true, Misc: format.MiscUser, PID: int32(pid), TID: int32(pid),
		Start: p.Start, Len: p.End - p.Start, Pgoff: p.Off,
		Maj: p.Major, Min: p.Minor, Ino: p.Inode, Prot: uint32(p.Prot), Flags: unix.MAP_PRIVATE,
		Filename: cmp.Or(p.Path, dso.Anonymous)}
	if p.Shared {
		m.Flags = unix.MAP_SHARED
	}
	if !p.Executable() {
		m.Misc |= format.MiscMmapData
	}
	return m
}

// HasFile reports whether the mapping is of a file.
func HasFile(m *format.Mmap) bool { return m.Ino != 0 && strings.HasPrefix(m.Filename, "/") }

// BuildID returns the build ID of a mapped file, nil if it has none or cannot be read.
func BuildID(m *format.Mmap) []byte {
	b, err := dso.BuildIDOf(dso.PathOf(int(m.PID), m.Filename, m.Ino, m.Start, m.Start+m.Len))
	if err != nil {
		return nil
	}
	return b.Bytes()
}
