package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/internal/container"
	"gperf/internal/procfs"
	"gperf/record"
)

// targetFlags choose the CPUs, processes, threads and code for gperf record.
type targetFlags struct {
	cpus string
	pids []string
	tids []string
	user string
	// These name a cgroup.
	unit, container, pod string
}

func (f *targetFlags) add(s *pflag.FlagSet, o *record.Options) {
	s.BoolVarP(&o.Target.All, "all-cpus", "a", false, "record all CPUs (default without a command)")
	s.StringVarP(&f.cpus, "cpu", "C", "", "record these `CPUs`: 0-3,5")
	s.StringSliceVarP(&f.pids, "pid", "p", nil, "record these processes: `PIDs` or names, by commas")
	s.StringSliceVarP(&f.tids, "tid", "t", nil, "record these threads: `TIDs` separated by commas")
	s.StringVarP(&f.user, "uid", "u", "", "record this `user`'s running processes and their children")
	f.addCgroups(s)
	s.BoolVarP(&o.NoInherit, "no-inherit", "i", false, "exclude child tasks of the target")
	s.BoolVar(&o.Target.PerThread, "per-thread", false, "use one ring per thread; implies --no-inherit")
	s.BoolVar(&o.AllUser, "all-user", false, "record user space only")
	s.BoolVar(&o.NoIdle, "no-idle", false, "clocks leave out the idle tasks of CPUs without work")
	s.BoolVar(&o.AllKernel, "all-kernel", false, "record the kernel only")
}

func (f *targetFlags) addCgroups(s *pflag.FlagSet) {
	s.StringVar(&f.unit, "unit", "", "only this `unit` of systemd: web.service")
	s.StringVar(&f.container, "container", "", "only the container with this `name` or ID")
	s.StringVar(&f.pod, "pod", "", "only this `pod`: NAMESPACE/NAME, or UID")
}

// apply sets the target. As in perf, processes and threads override CPUs.
func (f *targetFlags) apply(s *pflag.FlagSet, o *record.Options) (err error) {
	t := &o.Target
	if t.PIDs, err = processIDs(f.pids, o.Notice); err != nil {
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
	if err := f.applyCgroup(o); err != nil {
		return err
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

// applyCgroup sets the cgroup of a unit, a container or a pod. All CPUs are recorded then.
func (f *targetFlags) applyCgroup(o *record.Options) error {
	var flags []string
	var kind container.Kind
	var name string
	for _, c := range []struct {
		flag, name string
		kind       container.Kind
	}{{"--unit", f.unit, container.Unit}, {"--container", f.container, container.ID}, {"--pod", f.pod, container.Pod}} {
		if c.name != "" {
			flags, kind, name = append(flags, c.flag), c.kind, c.name
		}
	}
	t := &o.Target
	switch {
	case flags == nil:
		return nil
	case len(flags) > 1:
		return cli.WrongUse("%s and %s choose different cgroups: use one", flags[0], flags[1])
	case len(t.PIDs)+len(t.TIDs)+len(t.UIDs) > 0:
		return cli.WrongUse("%s records all CPUs: -p, -t and -u are not possible", flags[0])
	}
	root, err := procfs.Cgroups()
	if err != nil {
		return fmt.Errorf("%s: %w", flags[0], err)
	}
	found, err := container.Find(os.DirFS(root), os.DirFS("/"), kind, name)
	if err != nil {
		return fmt.Errorf("%s %s: %w", flags[0], name, err)
	}
	t.Cgroup, t.All = found, len(t.CPUs) == 0
	return nil
}

// processIDs returns the IDs of processes, which may be named. It says which ones have the name.
func processIDs(list []string, notice func(error)) (l []int, err error) {
	for _, s := range list {
		named := processesNamed(s)
		if _, err := strconv.ParseInt(s, 10, 64); err == nil || len(named) == 0 {
			one, err := ids("-p", []string{s})
			if err != nil {
				return nil, err
			}
			l = append(l, one...)
			continue
		}
		notice(fmt.Errorf("-p %s: recording the running processes of this name and their children, %d now", s,
			len(named)))
		l = append(l, named...)
	}
	return l, nil
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

// wrongID says why a word is no ID.
func wrongID(word string) string {
	if _, err := strconv.ParseInt(word, 10, 64); err == nil || word == "" {
		return "invalid process or thread ID"
	}
	if len(processesNamed(word)) > 0 {
		return "it is not an ID: -p takes names of processes"
	}
	return "it is not an ID, and no running process has this name"
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
