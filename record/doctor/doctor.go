// Package doctor reports the events and features that this machine, kernel and user may record, and how to fix
// the rest. It tries each operation if possible (opens the counter, reads the file, loads the
// program) instead of reading the kernel's configuration. A failed check does not affect the others.
//
// The same knowledge explains why an operation was refused (why.go).
package doctor

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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

// Check is the result of one check.
type Check struct {
	Verdict Verdict `json:"verdict"`
	Name    string  `json:"check"`
	Detail  string  `json:"detail"`
	Remedy  string  `json:"remedy,omitempty"` // "" if none is needed or known
}

// Machine is the examined machine.
type Machine struct {
	Root    string // directory with proc, sys etc.; "": /
	Tracefs *tracefs.FS

	// Operations on the kernel; replaced in tests.
	open       func(a format.Attr, everywhere bool) error
	openCgroup func(dir string) error
	loadBPF    func() error
	loadWalker func() error // called by several goroutines, as interpreters
	manyProbes func() error
	// interpreters returns the files of this machine that may have interpreters.
	interpreters func() []string
}

// This returns the machine that the program runs on.
func This() *Machine {
	return &Machine{
		Tracefs:    new(tracefs.FS),
		open:       perfevent.Try,
		openCgroup: perfevent.TryCgroup,
		loadBPF:    bpf.Try,
		loadWalker: sync.OnceValue(loadWalker),
		manyProbes: bpf.TryKprobeMulti,

		interpreters: sync.OnceValue(interpreters),
	}
}

// loadWalker loads the program that walks stacks of cpu-clock, with minimal maps.
func loadWalker() error {
	u, err := bpf.Load(bpf.Options{
		Programs:  []bpf.Program{bpf.OnEvent},
		Rows:      1 << 12,
		Tables:    1,
		Mappings:  1 << 10,
		Processes: 1,
		CPUs:      1,
	})
	if err == nil {
		u.Close()
	}
	return err
}

// checks are all checks by name, in the order of the output.
var checks = []struct {
	name string
	run  func(*Machine) Check
}{
	{"kernel", checkKernel},
	{"user", checkUser},
	{"container", checkContainer},
	{"lockdown", checkLockdown},
	{"paranoid", checkParanoid},
	{"cpu-clock", checkCPUClock},
	{"all processes", checkAllProcesses},
	{"PMU", checkPMU},
	{"breakpoints", checkBreakpoints},
	{"sample rate", checkSampleRate},
	{"ring buffers", checkRings},
	{"open files", checkOpenFiles},
	{"tracefs", checkTracefs},
	{"tracepoints", checkTracepoints},
	{"kprobes", checkKprobes},
	{"kretprobes", checkKretprobes},
	{"kprobe-multi", checkKprobeMulti},
	{"uprobes", checkUprobes},
	{"uretprobes", checkUretprobes},
	{"USDT", checkUSDT},
	{"leftovers", checkLeftovers},
	{"BPF", checkBPF},
	{"BTF", checkBTF},
	{"whole stacks", checkWholeStacks},
	{"runtimes", checkRuntimes},
	{"kernel symbols", checkKernelSymbols},
	{"build IDs", checkBuildIDs},
	{"lost samples", checkLostSamples},
	{"cgroups", checkCgroups},
	{"kernel debuginfo", checkKernelDebuginfo},
	{"libc debuginfo", checkLibcDebuginfo},
	{"debuginfod", checkDebuginfod},
	{"perf", checkPerf},
}

// All runs all checks, until ctx is cancelled: a check that has begun cleans up at its end. If several have the same
// remedy, the later ones refer to the first.
func (m *Machine) All(ctx context.Context) (l []Check) {
	go m.loadWalker() // the checks that need these two then wait for less
	go m.interpreters()
	firstWith := map[string]string{} // names of checks by remedy
	for _, check := range checks {
		if ctx.Err() != nil {
			break
		}
		c := check.run(m)
		c.Name = check.name
		if name, ok := firstWith[c.Remedy]; ok {
			c.Remedy = "see " + name
		} else if c.Remedy != "" {
			firstWith[c.Remedy] = c.Name
		}
		l = append(l, c)
	}
	return l
}

func ok(detail string) Check           { return Check{Verdict: OK, Detail: detail} }
func part(detail, remedy string) Check { return Check{Verdict: Part, Detail: detail, Remedy: remedy} }
func no(detail, remedy string) Check   { return Check{Verdict: No, Detail: detail, Remedy: remedy} }

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

// CanRecord reports whether any event can be recorded, by the results of All.
func CanRecord(l []Check) bool {
	return slices.ContainsFunc(l, func(c Check) bool {
		return c.Verdict != No && (c.Name == "cpu-clock" || c.Name == "PMU" || c.Name == "tracepoints")
	})
}
