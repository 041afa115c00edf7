package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/procfs"
	"gperf/record"
)

// targetFlags choose the CPUs, processes, threads and code for gperf record.
type targetFlags struct {
	cpus string
	pids []string
	tids []string
	user string
}

func (f *targetFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.BoolVarP(&o.Target.All, "all-cpus", "a", false, "record all CPUs (default without a command)")
	s.StringVarP(&f.cpus, "cpu", "C", "", "record these `CPUs`: 0-3,5")
	s.StringSliceVarP(&f.pids, "pid", "p", nil, "record these processes: `PIDs` separated by commas")
	s.StringSliceVarP(&f.tids, "tid", "t", nil, "record these threads: `TIDs` separated by commas")
	s.StringVarP(&f.user, "uid", "u", "", "record this `user`'s running processes and their children")
	s.BoolVarP(&o.NoInherit, "no-inherit", "i", false, "exclude child tasks of the target")
	s.BoolVar(&o.Target.PerThread, "per-thread", false, "use one ring per thread; implies --no-inherit")
	s.BoolVar(&o.AllUser, "all-user", false, "record user space only")
	s.BoolVar(&o.NoIdle, "no-idle", false, "clocks leave out the idle tasks of CPUs without work")
	s.BoolVar(&o.AllKernel, "all-kernel", false, "record the kernel only")
}

// apply sets the target. As in perf, processes and threads override CPUs.
func (f *targetFlags) apply(s *pflag.FlagSet, o *record.Options) (err error) {
	t := &o.Target
	if t.PIDs, err = ids("-p", f.pids); err != nil {
		return err
	}
	if t.TIDs, err = ids("-t", f.tids); err != nil {
		return err
	}
	if f.cpus != "" {
		if t.CPUs, err = procfs.ParseCPUList(f.cpus); err != nil {
			return cli.WrongUse("-C: %v", err)
		}
	}
	if f.user != "" {
		if err := f.applyUser(o); err != nil {
			return err
		}
	}
	if len(t.PIDs) > 0 && len(t.TIDs) > 0 {
		o.Notice(errors.New("processes (-p) override threads (-t)"))
		t.TIDs = nil
	}
	if len(t.PIDs)+len(t.TIDs)+len(t.UIDs) > 0 && (t.All || len(t.CPUs) > 0) {
		o.Notice(errors.New("processes and threads (-p, -t, -u) override CPUs (-a, -C)"))
		t.All, t.CPUs = false, nil
	}
	if len(t.TIDs) > 0 && !s.Changed("no-inherit") {
		o.NoInherit = true
	}
	if t.PerThread && t.SystemWide() {
		o.Notice(errors.New("SYSTEM/CPU switch overriding PER-THREAD"))
	}
	if o.AllUser && o.AllKernel {
		return cli.WrongUse("--all-user and --all-kernel leave nothing to record")
	}
	return nil
}

func ids(flag string, list []string) ([]int, error) {
	var l []int
	for _, s := range list {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return nil, cli.WrongUse("%s %s: %s", flag, s, wrongID(s))
		}
		l = append(l, int(n))
	}
	return l, nil
}

// wrongID says why a word is no ID. If it is the name of processes, it names them.
func wrongID(word string) string {
	if _, err := strconv.ParseInt(word, 10, 64); err == nil || word == "" {
		return "invalid process or thread ID"
	}
	var named []string
	for _, pid := range processesNamed(word) {
		named = append(named, strconv.Itoa(pid))
	}
	const shown = 20
	switch {
	case len(named) == 0:
		return "it is not an ID, and no running process has this name"
	case len(named) > shown:
		return fmt.Sprintf("it is not an ID: %d processes have this name, -p $(pgrep -d, -x %s)", len(named), word)
	}
	return "it is not an ID: use -p " + strings.Join(named, ",")
}

// processesNamed returns the other processes whose main thread or program is called so.
func processesNamed(name string) (l []int) {
	all, _ := procfs.Processes()
	for _, pid := range all {
		if pid == os.Getpid() {
			continue
		}
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		st, err := procfs.StatusOf(pid)
		if filepath.Base(exe) == name || err == nil && st.Name == name[:min(len(name), procfs.MaxComm)] {
			l = append(l, pid)
		}
	}
	return l
}

// applyUser applies -u.
func (f *targetFlags) applyUser(o *record.Options) error {
	id := f.user
	if _, err := strconv.ParseUint(id, 10, 31); err != nil {
		u, err := user.Lookup(f.user)
		if err != nil {
			return cli.WrongUse("-u %s: no such user", f.user)
		}
		id = u.Uid
	}
	uid, err := strconv.Atoi(id)
	if err != nil {
		return cli.WrongUse("-u %s: invalid user ID %s", f.user, id)
	}
	o.Target.UIDs = []int{uid}
	o.Notice(errors.New("-u " + f.user + ": recording the user's running processes and their children"))
	return nil
}
