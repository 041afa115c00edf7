package record

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

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

// goPrograms finds the programs whose goroutines' waits are recorded. Their paths are valid until close is called.
func goPrograms(o *plan) (l []bpf.GoProgram, close func(), err error) {
	if len(o.Goroutines) == 0 {
		return runningGo(o)
	}
	close = func() {}
	locator := program.Locator{PIDs: o.Target.PIDs, Notice: o.notice}
	for _, name := range o.Goroutines {
		paths, err := locator.Files(name)
		if err != nil {
			return nil, close, err
		}
		for _, path := range paths {
			g, err := goProgram(path)
			if err != nil {
				return nil, close, fmt.Errorf("--goroutines: %w", err)
			}
			l = append(l, g)
		}
	}
	return l, close, nil
}

// runningGo finds the recorded programs of Go that run, and the command if it is one. It keeps their files open,
// because the processes through which it finds them may end. Programs whose goroutines cannot be recorded are reported.
func runningGo(o *plan) (l []bpf.GoProgram, close func(), err error) {
	var fds []int
	close = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	var refused error
	known := map[[2]uint64]bool{} // by device and inode
	for _, path := range programFiles(&o.Target) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it ended
		}
		fds = append(fds, fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || known[[2]uint64{st.Dev, st.Ino}] {
			continue
		}
		known[[2]uint64{st.Dev, st.Ino}] = true
		g, err := goProgram(fmt.Sprintf("/proc/self/fd/%d", fd))
		switch file := (*program.FileError)(nil); {
		case err == nil:
			l = append(l, g)
		case !errors.Is(err, program.ErrNotGo) && errors.As(err, &file):
			if file.File = path; strings.HasPrefix(path, "/proc/") {
				file.File, _ = os.Readlink(path)
			}
			if refused == nil {
				refused = fmt.Errorf("--goroutines: %w", err)
			}
		}
	}
	switch {
	case len(l) == 0 && refused == nil:
		return nil, close, &NoGoError{}
	case len(l) == 0:
		return nil, close, refused
	case refused != nil:
		o.notice(refused)
	}
	return l, close, nil
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
