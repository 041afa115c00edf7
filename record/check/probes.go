package check

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

// tracefs is whether it can be read, and written to.
func (m *Machine) tracefs() Finding {
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

// writable tells whether a file of tracefs can be opened for writing.
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

// withoutTracefs is the finding of what tracefs is missing for.
var withoutTracefs = no("tracefs is missing for it, see above", "")

// tracepoints is whether one of them can be opened, with its data.
func (m *Machine) tracepoints() Finding {
	names, err := m.Tracefs.Names()
	if err != nil {
		return withoutTracefs
	}
	for _, tp := range [][2]string{{"sched", "sched_process_exec"}, {"skb", "kfree_skb"}, {"raw_syscalls", "sys_enter"}} {
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
			return m.refused(OfTracepoints, err)
		}
		return ok(fmt.Sprintf("%d of them (gperf list tracepoint)", len(names)))
	}
	return no("this kernel has none of those that were tried", "a kernel with CONFIG_EVENT_TRACING")
}

// never are functions of the kernel that do not run within a check, to put a probe on.
var never = []string{"kernel_restart", "kernel_halt", "kernel_power_off"}

func (m *Machine) kprobes() Finding { return m.kprobe(probe.Kprobe) }

func (m *Machine) kretprobes() Finding { return m.kprobe(probe.Kretprobe) }

func (m *Machine) kprobe(kind probe.Kind) Finding {
	if f, ok := m.takesProbes("kprobe"); !ok {
		return f
	}
	err := error(unix.ENOENT)
	for _, f := range never {
		if err = m.watch(&probe.Probe{Kind: kind, Event: "doctor", Symbol: f}); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return m.probed(err, kind.String()+":FUNCTION (gperf list '"+kind.String()+":tcp_*')")
}

// takesProbes tells whether this user may write to tracefs' file for kprobe or uprobe.
func (m *Machine) takesProbes(word string) (f Finding, can bool) {
	err := m.writable(word + "_events")
	var missing *tracefs.NotFoundError
	switch {
	case errors.As(err, &missing):
		return withoutTracefs, false
	case errors.Is(err, fs.ErrNotExist):
		return no("this kernel has none (no "+word+"_events)", "it takes one with CONFIG_"+strings.ToUpper(word)+"_EVENTS"), false
	case errors.Is(err, fs.ErrPermission):
		return no(m.Tracefs.Root+"/"+word+"_events may not be written to", m.WhyNotWritten()), false
	case err != nil:
		return no(err.Error(), ""), false
	}
	return Finding{}, true
}

// probed is the finding of watching a probe.
func (m *Machine) probed(err error, yes string) Finding {
	var install *probe.InstallError
	switch {
	case err == nil:
		return ok(yes)
	case errors.As(err, &install):
		return no("the kernel refuses a probe: "+install.Err.Error(), m.lockedDown())
	case denied(err):
		return m.refused(OfTracepoints, err)
	}
	return no(err.Error(), "")
}

// watch has the kernel take a probe as a recording does, opens it, and takes it away.
func (m *Machine) watch(p *probe.Probe) error {
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

// kprobeMulti is whether a glob's probes are attached at once.
func (m *Machine) kprobeMulti() Finding {
	if errors.Is(m.writable("kprobe_events"), fs.ErrNotExist) {
		return no("this kernel has no kprobes", "")
	}
	switch err := m.manyProbes(); {
	case err == nil:
		return ok("globs of functions are attached at once")
	case errors.Is(err, bpf.ErrNotSupported):
		return part("this kernel cannot (Linux 5.18, with CONFIG_FPROBE): a glob's functions are attached one by one", "")
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

func (m *Machine) uprobes() Finding { return m.uprobe(probe.Uprobe) }

func (m *Machine) uretprobes() Finding { return m.uprobe(probe.Uretprobe) }

// uprobe tries one where this program began.
func (m *Machine) uprobe(kind probe.Kind) Finding {
	if f, ok := m.takesProbes("uprobe"); !ok {
		return f
	}
	path, off, err := entry()
	if err == nil {
		err = m.watch(&probe.Probe{Kind: kind, Event: "doctor", Path: path, Off: off})
	}
	return m.probed(err, kind.String()+":FILE:FUNCTION (gperf list '"+kind.String()+":./program:*')")
}

// entry is where this program begins, in its file.
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

// usdt is whether programs can be told that somebody watches.
func (m *Machine) usdt() Finding {
	if f, ok := m.takesProbes("uprobe"); !ok {
		return f
	}
	switch {
	case !m.exists("sys/bus/event_source/devices/uprobe/format/ref_ctr_offset"):
		return part("without semaphores (Linux 4.20 has them): markers that have one stay silent", "")
	}
	return ok("usdt:FILE:PROVIDER:NAME, semaphores included")
}

// leftovers are probes that a killed recording left behind.
func (m *Machine) leftovers() Finding {
	l, err := probe.Leftovers(m.Tracefs)
	var missing *tracefs.NotFoundError
	switch {
	case errors.As(err, &missing):
		return withoutTracefs
	case err != nil:
		return no(err.Error(), m.WhyNoTracefs(err))
	case len(l) == 0:
		return ok("no probes of recordings that were killed")
	}
	return part(fmt.Sprintf("%d probes of recordings that were killed, such as %s", len(l), l[0].String()), "gperf probe --del")
}
