package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// loader loads the programs of a recorder. Which maps they use together is said in C (kernel.h, PER_RECORDING).
type loader struct {
	recording map[string]*ebpf.Map // for all programs of a recording, by name
	recorder  map[string]*ebpf.Map // for the programs of this recorder
	own       []*ebpf.Map          // maps of both kinds that this loader created
	types     *btf.Cache           // the kernel's types, until the programs run; nil: each load reads them again
	cgroups   []uint64             // IDs: only tasks in these cgroups, and below them, are recorded; nil: all
}

// newLoader returns a loader for a recorder of tasks in cgroups that uses the data of u, which may be nil.
func newLoader(u *Unwinder, cgroups []uint64) *loader {
	l := &loader{recording: map[string]*ebpf.Map{}, recorder: map[string]*ebpf.Map{}, cgroups: cgroups}
	if u != nil {
		maps.Copy(l.recording, u.loader.recording)
		l.types = u.loader.types
	}
	if l.types == nil {
		l.types = Types()
	}
	return l
}

// newLoaderWith returns a loader for programs whose output goes to the same rings as the output of u, which may be
// nil.
func newLoaderWith(u *Unwinder, cgroups []uint64) *loader {
	l := newLoader(u, cgroups)
	if u != nil {
		maps.Copy(l.recorder, u.loader.recorder)
	}
	return l
}

// together returns the maps that programs use together if they are defined like this, else nil.
func (l *loader) together(m *ebpf.MapSpec) map[string]*ebpf.Map {
	switch {
	case slices.Contains(m.Tags, "recording"):
		return l.recording
	case slices.Contains(m.Tags, "recorder"):
		return l.recorder
	}
	return nil
}

// get returns a map that programs use together.
func (l *loader) get(name string) *ebpf.Map {
	if m := l.recorder[name]; m != nil {
		return m
	}
	return l.recording[name]
}

// load loads programs of spec, which it changes, with these variables. The collection contains the programs, and
// the maps that only they use: maps that programs use remain when the collection is closed. VerifierLog returns
// the details of the error.
func (l *loader) load(spec *ebpf.CollectionSpec, vars map[string]any, names ...string) (*ebpf.Collection, error) {
	maps.DeleteFunc(spec.Programs, func(name string, _ *ebpf.ProgramSpec) bool { return !slices.Contains(names, name) })
	if err := setVariables(spec, vars); err != nil {
		return nil, err
	}
	if err := l.selectCgroups(spec); err != nil {
		return nil, err
	}
	known := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if old := l.together(m)[name]; old != nil {
			m.MaxEntries, known[name] = old.MaxEntries(), old
		}
	}
	coll, err := withMemory(func() (*ebpf.Collection, error) {
		return ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: known, Cache: l.types})
	})
	if errors.Is(err, ebpf.ErrNotSupported) && !hasFiles(len(spec.Maps)-len(known)+len(spec.Programs)) {
		err = fmt.Errorf("%w (%w)", unix.EMFILE, err)
	}
	if err != nil {
		return nil, err
	}
	for name, m := range spec.Maps {
		if together := l.together(m); together != nil && known[name] == nil {
			together[name] = coll.DetachMap(name)
			l.own = append(l.own, together[name])
			if name == selectedCgroups {
				err = errors.Join(err, l.setCgroups(together[name]))
			}
		}
	}
	if err != nil {
		coll.Close()
		return nil, err
	}
	return coll, nil
}

// hasFiles reports whether this process may open so many more files. The library takes a test of a feature that fails
// for want of one for a kernel without the feature.
func hasFiles(n int) bool {
	var limit unix.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return true
	}
	return uint64(len(open)+n) < limit.Cur
}

// selectedCgroups is the map of cgroups whose tasks are recorded.
const selectedCgroups = "selected_cgroups"

// selectCgroups makes programs record only tasks in cgroups, if there are any, unless they do not run for tasks.
func (l *loader) selectCgroups(spec *ebpf.CollectionSpec) error {
	if spec.Maps[selectedCgroups] == nil || len(l.cgroups) == 0 {
		return nil
	}
	setSizes(spec, map[string]uint32{selectedCgroups: uint32(len(l.cgroups))})
	return setVariables(spec, map[string]any{"by_cgroup": flag(true)})
}

// setCgroups sets the cgroups whose tasks are recorded.
func (l *loader) setCgroups(m *ebpf.Map) error {
	for _, id := range l.cgroups {
		if err := m.Put(id, uint8(1)); err != nil {
			return fmt.Errorf("cgroups of the BPF programs: %w", err)
		}
	}
	return nil
}

// close closes the maps that the loader created. Programs that use them keep them.
func (l *loader) close() {
	for _, m := range l.own {
		m.Close()
	}
}

// control returns the switch of the programs: the switch of u, or a new one if u is nil.
func (l *loader) control(u *Unwinder, identify *ebpf.Program) (*control, error) {
	if u != nil {
		return u.control, nil
	}
	return newControl(l.get("control"), identify)
}

// setIDs sets the ids of the recording's perf events: with per_task, only threads with one of these events are
// recorded.
func (l *loader) setIDs(ids []uint64) error {
	for _, id := range ids {
		if err := l.get("counters").Put(id, uint8(1)); err != nil {
			return fmt.Errorf("perf events of the BPF programs: %w", err)
		}
	}
	return nil
}

// setCPUs sets the recorded CPUs.
func (l *loader) setCPUs(cpus []int) error {
	for _, cpu := range cpus {
		if err := l.get("wanted_cpus").Put(uint32(cpu), uint64(1)); err != nil {
			return fmt.Errorf("recorded CPUs: %w", err)
		}
	}
	return nil
}

// setOutput directs a CPU's output to PERF_COUNT_SW_BPF_OUTPUT events: events are the files of these events, by
// the name of the map.
func (l *loader) setOutput(cpu int, events map[string]int) error {
	for name, fd := range events {
		if err := l.get(name).Put(uint32(cpu), uint32(fd)); err != nil {
			return fmt.Errorf("BPF output of CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// setVariables sets the variables that are constants of the programs.
func setVariables(spec *ebpf.CollectionSpec, vars map[string]any) error {
	for name, v := range vars {
		variable := spec.Variables[name]
		if variable == nil {
			return fmt.Errorf("the BPF programs have no constant %s", name)
		}
		if err := variable.Set(v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setSizes sets the numbers of elements of maps.
func setSizes(spec *ebpf.CollectionSpec, sizes map[string]uint32) {
	for name, n := range sizes {
		spec.Maps[name].MaxEntries = n
	}
}

// withMemory loads programs or maps. The errors say which rights are missing.
func withMemory[T any](load func() (T, error)) (T, error) {
	x, err := load()
	if errors.Is(err, unix.EPERM) && unlockMemory() {
		x, err = load()
	}
	if errors.Is(err, unix.EPERM) && VerifierLog(err) == "" {
		err = fmt.Errorf("%w (requires CAP_BPF and CAP_PERFMON)", unix.EPERM)
	}
	if err != nil {
		return x, fmt.Errorf("loading BPF programs: %w", err)
	}
	return x, nil
}
