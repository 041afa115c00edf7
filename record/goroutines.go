package record

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/internal/procfs"
	"gperf/record/probe/program"
)

// NoGoError means that none of the recorded programs is of Go, so that no waits of goroutines can be recorded.
type NoGoError struct{}

func (*NoGoError) Error() string {
	return "--goroutines: no recorded program that runs is of Go"
}

// goPrograms finds the programs whose goroutines' waits are recorded.
func goPrograms(o *plan) (l []bpf.GoProgram, err error) {
	locator := program.Locator{PIDs: o.Target.PIDs, Notice: o.notice}
	for _, name := range o.Goroutines {
		paths, err := locator.Files(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			g, err := goProgram(path)
			if err != nil {
				return nil, fmt.Errorf("--goroutines: %w", err)
			}
			l = append(l, g)
		}
	}
	if len(l) > 0 {
		return l, nil
	}
	known := map[[2]uint64]bool{}
	for _, path := range programFiles(&o.Target) {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || known[[2]uint64{st.Dev, st.Ino}] {
			continue
		}
		known[[2]uint64{st.Dev, st.Ino}] = true
		g, err := goProgram(path)
		switch {
		case err == nil:
			l = append(l, g)
		case !errors.Is(err, program.ErrNotGo):
			o.verbose(err.Error())
		}
	}
	if len(l) == 0 {
		return nil, &NoGoError{}
	}
	return l, nil
}

// programFiles returns the files of the recorded programs that run, and of the command. gperf itself is none of them.
func programFiles(t *Target) (paths []string) {
	pids := slices.Concat(t.PIDs, t.TIDs)
	if t.byCPU() || len(t.UIDs) > 0 {
		pids, _ = procfs.Processes()
	}
	var own, st unix.Stat_t
	unix.Stat("/proc/self/exe", &own)
	for _, pid := range pids {
		path := "/proc/" + strconv.Itoa(pid) + "/exe"
		if unix.Stat(path, &st) == nil && (st.Dev != own.Dev || st.Ino != own.Ino) {
			paths = append(paths, path)
		}
	}
	if len(t.Command) > 0 {
		locator := program.Locator{}
		if files, err := locator.Files(t.Command[0]); err == nil {
			paths = append(paths, files...)
		}
	}
	return paths
}

// goroutineFunctions are the functions of Go's runtime at which BPF programs run.
var goroutineFunctions = []string{"runtime.gopark", "runtime.ready", "runtime.injectglist", "runtime.execute",
	"runtime.goschedImpl", "runtime.exitsyscallNoP|runtime.exitsyscall0"}

// goProgram finds the places of a program.
func goProgram(path string) (g bpf.GoProgram, err error) {
	found, err := program.FindGoRuntime(path, goroutineFunctions...)
	if err != nil {
		return g, err
	}
	at := found.Functions
	return bpf.GoProgram{Path: path, GoPark: at[0], Ready: at[1], InjectGList: at[2], Execute: at[3],
		GoSched: at[4], ExitSyscall: at[5], GoID: found.GoID, BP: found.BP}, nil
}
