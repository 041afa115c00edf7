package doctor

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/record/probe"
	"gperf/record/tracefs"
)

// checkTracefs checks whether tracefs can be read and written.
func checkTracefs(m *Machine) Check {
	events, err := m.Tracefs.Path("events")
	if err != nil {
		return no(err.Error(), m.WhyNoTracefs(err))
	}
	if _, err := os.ReadDir(events); err != nil {
		return no(err.Error(), m.WhyNoTracefs(err))
	}
	for _, name := range []string{"kprobe_events", "uprobe_events"} {
		if err := m.writable(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return part(m.Tracefs.Root+" can be read, not written to", m.WhyNotWritten())
		}
	}
	return ok(m.Tracefs.Root + " can be read and written to")
}

// writable returns an error if a file of tracefs cannot be opened for writing.
func (m *Machine) writable(name string) error {
	path, err := m.Tracefs.Path(name)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// withoutTracefs is the result of checks that need tracefs.
var withoutTracefs = no("requires tracefs, see above", "")

// checkTracepoints checks whether a tracepoint can be opened, with its data.
func checkTracepoints(m *Machine) Check {
	names, err := m.Tracefs.Names()
	if err != nil {
		return withoutTracefs
	}
	for _, tp := range [][2]string{{"sched", "sched_process_exec"}, {"skb", "kfree_skb"},
		{"raw_syscalls", "sys_enter"}} {
		id, err := m.Tracefs.ID(tp[0], tp[1])
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return no(err.Error(), m.WhyNoTracefs(err))
		}
		a := sampling(format.TypeTracepoint, id)
		a.SampleType |= format.SampleRaw
		if err := m.open(a, true); err != nil {
			return refused(m, paranoidTracepoints, err)
		}
		return ok(fmt.Sprintf("%d of them (gperf list tracepoint)", len(names)))
	}
	return no("this kernel has none of the tried tracepoints", "a kernel with CONFIG_EVENT_TRACING")
}

// never are kernel functions that do not run during a check, for testing a probe.
var never = []string{"kernel_restart", "kernel_halt", "kernel_power_off"}

func checkKprobes(m *Machine) Check { return checkKprobe(m, probe.Kprobe) }

func checkKretprobes(m *Machine) Check { return checkKprobe(m, probe.Kretprobe) }

func checkKprobe(m *Machine, kind probe.Kind) Check {
	if f, ok := checkProbeFile(m, "kprobe"); !ok {
		return f
	}
	err := error(unix.ENOENT)
	for _, f := range never {
		if err = tryProbe(m, &probe.Probe{Kind: kind, Event: "doctor", Symbol: f}); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return probeResult(m, err, kind.String()+":FUNCTION (gperf list '"+kind.String()+":tcp_*')")
}

// checkProbeFile reports whether this user may write to tracefs' file for kprobes or uprobes.
func checkProbeFile(m *Machine, word string) (f Check, can bool) {
	err := m.writable(word + "_events")
	var missing *tracefs.NotFoundError
	switch {
	case errors.As(err, &missing):
		return withoutTracefs, false
	case errors.Is(err, fs.ErrNotExist):
		return no("this kernel has none (no "+word+"_events)",
			"requires a kernel with CONFIG_"+strings.ToUpper(word)+"_EVENTS"), false
	case errors.Is(err, fs.ErrPermission):
		return no(m.Tracefs.Root+"/"+word+"_events is not writable", m.WhyNotWritten()), false
	case err != nil:
		return no(err.Error(), ""), false
	}
	return Check{}, true
}

// probeResult returns the result for testing a probe.
func probeResult(m *Machine, err error, yes string) Check {
	var install *probe.InstallError
	switch {
	case err == nil:
		return ok(yes)
	case errors.As(err, &install):
		return no("the kernel rejects a probe: "+install.Err.Error(), m.lockedDown())
	case denied(err):
		return refused(m, paranoidTracepoints, err)
	}
	return no(err.Error(), "")
}

// tryProbe installs a probe as a recording does, opens it, and removes it.
func tryProbe(m *Machine, p *probe.Probe) error {
	set := probe.NewSet(m.Tracefs)
	l, errs, err := set.Add([]*probe.Probe{p}, nil)
	if err := errors.Join(append(errs, err)...); err != nil {
		return errors.Join(err, set.Remove(nil))
	}
	a := sampling(format.TypeTracepoint, l[0].ID)
	a.SampleType |= format.SampleRaw
	err = m.open(a, true)
	return errors.Join(err, set.Remove(nil))
}

// checkKprobeMulti checks whether the probes of a glob can be attached at once.
func checkKprobeMulti(m *Machine) Check {
	if errors.Is(m.writable("kprobe_events"), fs.ErrNotExist) {
		return no("this kernel has no kprobes", "")
	}
	switch err := m.manyProbes(); {
	case err == nil:
		return ok("globs of functions are attached at once")
	case errors.Is(err, bpf.ErrNotSupported):
		return part("this kernel cannot (Linux 5.18, with CONFIG_FPROBE): a glob's functions are attached one by one",
			"")
	case errors.Is(err, unix.EPERM):
		return no("BPF programs may not be loaded, see below", "")
	default:
		return no(firstLine(err), "")
	}
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

func checkUprobes(m *Machine) Check { return checkUprobe(m, probe.Uprobe) }

func checkUretprobes(m *Machine) Check { return checkUprobe(m, probe.Uretprobe) }

// checkUprobe tests a uprobe at this program's entry point.
func checkUprobe(m *Machine, kind probe.Kind) Check {
	if f, ok := checkProbeFile(m, "uprobe"); !ok {
		return f
	}
	path, off, err := entry()
	if err == nil {
		err = tryProbe(m, &probe.Probe{Kind: kind, Event: "doctor", Path: path, Off: off})
	}
	return probeResult(m, err, kind.String()+":FILE:FUNCTION (gperf list '"+kind.String()+":./program:*')")
}

// entry returns the position of this program's entry point in its file.
func entry() (path string, off uint64, err error) {
	if path, err = os.Executable(); err != nil {
		return "", 0, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return path, 0, err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= f.Entry && f.Entry < p.Vaddr+p.Filesz {
			return path, f.Entry - p.Vaddr + p.Off, nil
		}
	}
	return path, 0, errors.New("no entry")
}

// checkUSDT checks whether the kernel supports semaphores of USDT probes.
func checkUSDT(m *Machine) Check {
	if f, ok := checkProbeFile(m, "uprobe"); !ok {
		return f
	}
	switch {
	case !m.exists("sys/bus/event_source/devices/uprobe/format/ref_ctr_offset"):
		return part("without semaphores (Linux 4.20 has them): USDT probes with a semaphore stay silent", "")
	}
	return ok("usdt:FILE:PROVIDER:NAME, semaphores included")
}

// checkLeftovers reports probes that killed recordings have left.
func checkLeftovers(m *Machine) Check {
	l, err := probe.Leftovers(m.Tracefs)
	var missing *tracefs.NotFoundError
	switch {
	case errors.As(err, &missing):
		return withoutTracefs
	case err != nil:
		return no(err.Error(), m.WhyNoTracefs(err))
	case len(l) == 0:
		return ok("no probes of killed recordings")
	}
	return part(fmt.Sprintf("%d probes of killed recordings, such as %s", len(l), l[0].String()), "gperf probe --del")
}
