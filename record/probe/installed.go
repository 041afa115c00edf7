package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gperf/record/tracefs"
)

// Installed is a probe in the kernel, including probes of other programs.
type Installed struct {
	Kind         Kind
	Group, Event string
	Place        string   // in the kernel's format: "nf_conntrack:nf_conntrack_in+4", "/bin/x:0x1234"
	Args         []string // NAME=FETCH
	// More are the further places of an event with several places.
	More []string
}

func (p *Installed) String() string { return p.Group + ":" + p.Event }

// Definition returns the line that defines the probe, at the probe's first place.
func (p *Installed) Definition() string {
	return strings.Join(append([]string{p.Kind.define(p.Group, p.Event), p.Place}, p.Args...), " ")
}

// List returns the kernel's probes: first of kprobe_events, then of uprobe_events. It ignores missing files: then
// there are no probes of this kind.
func List(t *tracefs.FS) ([]Installed, error) {
	var l []Installed
	for _, file := range []string{kprobeEvents, uprobeEvents} {
		if _, err := t.Path(file); err != nil {
			return nil, err
		}
		text, err := t.Read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &AccessError{file, err}
		}
		l = append(l, parseInstalled(string(text), file == uprobeEvents)...)
	}
	return l, nil
}

// parseInstalled parses kprobe_events or uprobe_events: lines of "p:GROUP/EVENT PLACE[
// ARG=FETCH…]", with "r" or "r3" instead of p for kretprobes. The places of one event are on
// consecutive lines. It skips lines of another format.
func parseInstalled(text string, user bool) (l []Installed) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0][0] != 'p' && words[0][0] != 'r' {
			continue
		}
		_, name, _ := strings.Cut(words[0], ":")
		p := Installed{Place: words[1], Args: words[2:]}
		var ok bool
		if p.Group, p.Event, ok = strings.Cut(name, "/"); !ok {
			continue
		}
		if words[0][0] == 'r' {
			p.Kind = Kretprobe
		}
		if user {
			p.Kind += Uprobe
		}
		if n := len(l); n > 0 && l[n-1].Group == p.Group && l[n-1].Event == p.Event {
			l[n-1].More = append(l[n-1].More, p.Place)
			continue
		}
		l = append(l, p)
	}
	return l
}

// Delete removes probes from the kernel, and returns the removed ones. Probes in use remain:
// each of these is a separate *DeleteError. progress, if not nil, receives the number of
// tried probes.
func Delete(t *tracefs.FS, l []Installed, progress func(n, of int)) (removed []Installed, err error) {
	var errs []error
	for _, user := range []bool{false, true} {
		var batch []Installed
		var lines []string
		for _, p := range l {
			if p.Kind.User() == user {
				batch = append(batch, p)
				lines = append(lines, "-:"+p.Group+"/"+p.Event)
			}
		}
		if len(batch) == 0 {
			continue
		}
		w := writer{tracefs: t, file: eventsFile(batch[0].Kind), lines: lines}
		w.taken = func(i int) bool { return !t.Has(batch[i].Group, batch[i].Event) }
		w.done = func(i int, err error) {
			if err == nil || errors.Is(err, syscall.ENOENT) {
				removed = append(removed, batch[i])
			} else {
				errs = append(errs, &DeleteError{batch[i].String(), err})
			}
		}
		w.progress = func(n int) error {
			if progress != nil {
				progress(n, len(batch))
			}
			return nil
		}
		if err := w.write(); err != nil {
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// groupOfProcess returns the group of this process's ephemeral probes. It is distinct from
// the group of an earlier process with the same pid, and of one with this pid in another PID
// namespace.
func groupOfProcess() string {
	pid := os.Getpid()
	p, _ := processOf(strconv.Itoa(pid))
	return groupName(owner{pid, p.start, pidNamespace("self")})
}

const groupPrefix = "gperf_"

func groupName(o owner) string {
	return fmt.Sprintf("%s%d_%d_%x", groupPrefix, o.pid, o.start, o.namespace)
}

// owner identifies the process of a group by the parts of the group's name.
type owner struct {
	pid       int
	start     uint64 // in clock ticks since boot
	namespace uint64 // inode
}

func ownerOf(group string) (o owner, ok bool) {
	rest, ok := strings.CutPrefix(group, groupPrefix)
	if !ok {
		return o, false
	}
	words := strings.Split(rest, "_")
	if len(words) != 3 {
		return o, false
	}
	pid, err1 := strconv.ParseUint(words[0], 10, 31)
	start, err2 := strconv.ParseUint(words[1], 10, 64)
	ns, err3 := strconv.ParseUint(words[2], 16, 64)
	return owner{int(pid), start, ns}, err1 == nil && err2 == nil && err3 == nil
}

// process is a process's state in proc_pid_stat(5).
type process struct {
	exiting bool
	ended   bool   // a zombie without running threads
	start   uint64 // in clock ticks since boot
}

// pfExiting is PF_EXITING of the kernel's sched.h: a killed process may take a while to close files, but it will
// exit.
const pfExiting = 0x4

func processOf(pid string) (process, error) {
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return process{}, err
	}
	// The name, in parentheses, may contain spaces and parentheses.
	l := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(l) < 20 {
		return process{}, fmt.Errorf("/proc/%s/stat is too short", pid)
	}
	flags, _ := strconv.ParseUint(l[6], 10, 64)
	start, err := strconv.ParseUint(l[19], 10, 64)
	return process{exiting: flags&pfExiting != 0, ended: l[0] == "Z" && l[17] == "1", start: start}, err
}

func pidNamespace(pid string) uint64 {
	st, err := os.Stat(filepath.Join("/proc", pid, "ns", "pid"))
	if err != nil {
		return 0
	}
	return st.Sys().(*syscall.Stat_t).Ino
}

// initialNamespace is the inode of the initial PID namespace, which sees all processes:
// PROC_PID_INIT_INO of include/linux/proc_ns.h.
const initialNamespace = 0xeffffffc

// exited reports whether the process certainly exited. A process in a namespace that is invisible here may still
// be running.
func (o owner) exited() bool {
	here := pidNamespace("self")
	if o.namespace == here {
		p, err := processOf(strconv.Itoa(o.pid))
		return errors.Is(err, fs.ErrNotExist) || err == nil && (p.start != o.start || p.exiting)
	}
	if here != initialNamespace {
		return false
	}
	// In this namespace, the pid of the process differs.
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return false
	}
	for _, dir := range processes {
		pid := filepath.Base(dir)
		if p, err := processOf(pid); err == nil && p.start == o.start && pidNamespace(pid) == o.namespace {
			return p.exiting
		}
	}
	return true
}

// InUse reports whether a killed recording of these probes is still closing counters: until then the probes are in
// use.
func InUse(l []Installed) bool {
	seen := map[string]bool{}
	for _, p := range l {
		if seen[p.Group] {
			continue
		}
		seen[p.Group] = true
		o, ok := ownerOf(p.Group)
		if !ok || o.namespace != pidNamespace("self") {
			continue
		}
		if p, err := processOf(strconv.Itoa(o.pid)); err == nil && p.start == o.start && p.exiting && !p.ended {
			return true
		}
	}
	return false
}

// Leftovers returns the probes of recordings that were killed before they could remove them.
func Leftovers(t *tracefs.FS) ([]Installed, error) {
	all, err := List(t)
	if err != nil {
		return nil, err
	}
	var l []Installed
	exited := map[string]bool{} // by group
	for _, p := range all {
		o, ok := ownerOf(p.Group)
		if !ok {
			continue
		}
		left, known := exited[p.Group]
		if !known {
			left = o.exited()
			exited[p.Group] = left
		}
		if left {
			l = append(l, p)
		}
	}
	return l, nil
}
