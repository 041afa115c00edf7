package bpf

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// RunTime is how often a BPF program of this process ran, and for how long in all.
type RunTime struct {
	Name string // at most 15 characters
	Runs uint64
	Time time.Duration
}

// MeasureRunTimes makes the kernel measure how long programs run, until the closer is closed (Linux 5.8 and later).
func MeasureRunTimes() (io.Closer, error) { return ebpf.EnableStats(unix.BPF_STATS_RUN_TIME) }

// RunTimes returns the run times of the programs that this process holds and that ran while they were measured, a name
// once. The kernel shows them for each file descriptor.
func RunTimes() ([]RunTime, error) {
	const dir = "/proc/self/fdinfo/"
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{} // IDs: several descriptors may be of one program
	var l []RunTime
	for _, fd := range fds {
		text, _ := os.ReadFile(dir + fd.Name()) // it may be closed by now
		id, runs, ns := parseRunTime(string(text))
		if runs == 0 || seen[id] {
			continue
		}
		seen[id] = true
		name := programName(fd.Name())
		i := slices.IndexFunc(l, func(r RunTime) bool { return r.Name == name })
		if i < 0 {
			i, l = len(l), append(l, RunTime{Name: name})
		}
		l[i].Runs += runs
		l[i].Time += time.Duration(ns)
	}
	return l, nil
}

// parseRunTime returns the figures of a program's fdinfo (bpf_prog_show_fdinfo), no runs for other descriptors.
func parseRunTime(text string) (id string, runs, ns uint64) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "prog_id":
			id = value
		case "run_cnt":
			runs, _ = strconv.ParseUint(value, 10, 64)
		case "run_time_ns":
			ns, _ = strconv.ParseUint(value, 10, 64)
		}
	}
	return id, runs, ns
}

// programName returns the name of the program of a file descriptor, "" if it is closed.
func programName(fd string) string {
	n, err := strconv.Atoi(fd)
	if err != nil {
		return ""
	}
	own, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	p, err := ebpf.NewProgramFromFD(own)
	if err != nil {
		return ""
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return ""
	}
	return info.Name
}
