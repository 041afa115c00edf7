// Package doctor reports what this machine, kernel and user may record, and how to fix the
// rest. It tries each operation if possible (opens the counter, reads the file, loads the
// program) instead of reading the kernel's configuration. One failed check is one finding,
// and the others go on.
//
// The same knowledge explains why an operation was refused (why.go).
package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/tracefs"
)

// Verdict is the result of a check.
type Verdict uint8

// Verdicts.
const (
	OK   Verdict = iota
	Part         // partly possible
	No
)

func (v Verdict) String() string { return [...]string{"ok", "part", "no"}[v] }

// MarshalJSON writes the verdict's word.
func (v Verdict) MarshalJSON() ([]byte, error) { return json.Marshal(v.String()) }

// Finding is the outcome of a check.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Thing   string  `json:"thing"`
	Fact    string  `json:"fact"`
	Way     string  `json:"way,omitempty"` // remedy; "" if none is needed
}

// Machine is the examined machine.
type Machine struct {
	Root    string // directory with proc, sys etc.; "": /
	Tracefs *tracefs.FS

	// Operations on the kernel; replaced in tests.
	open       func(a format.Attr, everywhere bool) error
	openCgroup func(dir string) error
	loadBPF    func() error
	loadWalker func() error
	manyProbes func() error
}

// This returns the machine that the program runs on.
func This() *Machine {
	return &Machine{
		Tracefs: new(tracefs.FS), open: perfevent.Try, openCgroup: perfevent.TryCgroup,
		loadBPF: bpf.Try, loadWalker: loadWalker, manyProbes: bpf.TryKprobeMulti,
	}
}

// loadWalker loads the program that walks stacks of cpu-clock, with minimal maps.
func loadWalker() error {
	u, err := bpf.Load(bpf.Options{Programs: []bpf.Program{bpf.OnEvent}, Rows: 1 << 12, Tables: 1, Mappings: 1 << 10, Processes: 1, CPUs: 1})
	if err == nil {
		u.Close()
	}
	return err
}

// All runs all checks. It prints a remedy for several findings once.
func (m *Machine) All() (l []Finding) {
	said := map[string]string{} // the first thing with each remedy
	for _, check := range []struct {
		thing string
		of    func(*Machine) Finding
	}{
		{"kernel", (*Machine).kernel},
		{"user", (*Machine).user},
		{"container", (*Machine).container},
		{"lockdown", (*Machine).lockdown},
		{"paranoid", (*Machine).paranoid},
		{"cpu-clock", (*Machine).cpuClock},
		{"all processes", (*Machine).everywhere},
		{"PMU", (*Machine).pmu},
		{"breakpoints", (*Machine).breakpoints},
		{"sample rate", (*Machine).sampleRate},
		{"ring buffers", (*Machine).rings},
		{"open files", (*Machine).files},
		{"tracefs", (*Machine).tracefs},
		{"tracepoints", (*Machine).tracepoints},
		{"kprobes", (*Machine).kprobes},
		{"kretprobes", (*Machine).kretprobes},
		{"kprobe-multi", (*Machine).kprobeMulti},
		{"uprobes", (*Machine).uprobes},
		{"uretprobes", (*Machine).uretprobes},
		{"USDT", (*Machine).usdt},
		{"leftovers", (*Machine).leftovers},
		{"BPF", (*Machine).bpf},
		{"BTF", (*Machine).btf},
		{"whole stacks", (*Machine).wholeStacks},
		{"kernel symbols", (*Machine).kernelSymbols},
		{"build IDs", (*Machine).buildIDs},
		{"lost samples", (*Machine).lostSamples},
		{"cgroups", (*Machine).cgroups},
		{"kernel debuginfo", (*Machine).kernelDebuginfo},
		{"libc debuginfo", (*Machine).libcDebuginfo},
		{"debuginfod", (*Machine).debuginfod},
		{"perf", (*Machine).perf},
	} {
		f := check.of(m)
		f.Thing = check.thing
		if thing, told := said[f.Way]; told {
			f.Way = "see " + thing
		} else if f.Way != "" {
			said[f.Way] = f.Thing
		}
		l = append(l, f)
	}
	return l
}

func ok(fact string) Finding        { return Finding{Verdict: OK, Fact: fact} }
func part(fact, way string) Finding { return Finding{Verdict: Part, Fact: fact, Way: way} }
func no(fact, way string) Finding   { return Finding{Verdict: No, Fact: fact, Way: way} }

func (m *Machine) path(name string) string { return filepath.Join("/", m.Root, name) }

// read returns the text of a file without surrounding space.
func (m *Machine) read(name string) (string, error) {
	b, err := os.ReadFile(m.path(name))
	return strings.TrimSpace(string(b)), err
}

func (m *Machine) exists(name string) bool {
	_, err := os.Stat(m.path(name))
	return err == nil
}

// Anything reports whether anything can be recorded, according to the findings of All.
func Anything(l []Finding) bool {
	for _, f := range l {
		if f.Thing == "cpu-clock" || f.Thing == "PMU" || f.Thing == "tracepoints" {
			if f.Verdict != No {
				return true
			}
		}
	}
	return false
}
