package main

import (
	"errors"
	"os/user"
	"strconv"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/format"
	"gperf/record"
)

// targetFlags choose what gperf record records.
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
		if t.CPUs, err = format.ParseCPUList(f.cpus); err != nil {
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
			return nil, cli.WrongUse("%s %s: invalid process or thread ID", flag, s)
		}
		l = append(l, int(n))
	}
	return l, nil
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
