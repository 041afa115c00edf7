package stacks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/internal/procfs"
	"gperf/internal/untrusted"
)

// Nameless is a Java process whose generated code cannot be named: it wrote neither a perf map nor a jitdump.
type Nameless struct {
	PID    int32
	Exited bool
}

// maxNameless limits the list of exited processes.
const maxNameless = 100

// namelessJava returns the sampled Java processes without names, those that still run first.
func (g *registry) namelessJava() (l []Nameless) {
	g.tracker.forgetAll(g.tracker.leftBefore)
	g.tracker.forgetAll(g.tracker.left)
	for pid, p := range g.tracker.byPID {
		if p.registered && p.space.refs == 1 && p.isNamelessJava() {
			l = append(l, Nameless{PID: pid})
		}
	}
	slices.SortFunc(l, func(a, b Nameless) int { return int(a.PID) - int(b.PID) })
	return append(l, g.exited...)
}

// exitedJava notes a process that exits, if it is Java without names: a JVM writes the perf map before it exits. A
// child that did not exec shares the parent's mappings, and is not Java.
func (g *registry) exitedJava(p *process) {
	if len(g.exited) < maxNameless && p.space.refs == 0 && p.isNamelessJava() {
		g.exited = append(g.exited, Nameless{p.pid, true})
	}
}

// isNamelessJava reports whether a process runs HotSpot, whose methods gperf does not read, without a perf map or
// a jitdump.
func (p *process) isNamelessJava() bool {
	if in := p.space.interpreter; in != nil && in.file.runtime.DSO() == dso.JavaName {
		return false
	}
	java, dump := false, false
	for m := range p.space.maps.All() {
		base := path.Base(m.Value.file.name)
		java = java || base == "libjvm.so"
		dump = dump || strings.HasPrefix(base, "jit-") && strings.HasSuffix(base, ".dump")
	}
	return java && !dump && !hasPerfMap(p.pid)
}

// hasPerfMap reports whether a process, in a container or not, wrote a perf map.
func hasPerfMap(pid int32) bool {
	names := []string{dso.PerfMap(pid)}
	if st, err := procfs.StatusOf(int(pid)); err == nil && len(st.NStgid) > 0 {
		own := int32(st.NStgid[len(st.NStgid)-1])
		names = append(names, fmt.Sprintf("/proc/%d/root%s", pid, dso.PerfMap(own)))
	}
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := untrusted.Stat(name)
		return err == nil
	})
}
