package stacks

import (
	"time"

	"gperf/internal/dso"
)

// holds says which files of generated code of a process the keeper holds.
type holds struct {
	known, elsewhere bool // whether the process is in another namespace
	perfMap, dump    bool
}

// holdTime is the interval at which perf maps are looked for: a process may begin to write a perf map at any time.
const holdTime = 250 * time.Millisecond

// holdGenerated opens the perf maps and jitdumps of sampled processes in other namespaces, because these files no
// longer exist after the container ends. The keeper holds them for the reader of the recording.
func (t *tracker) holdGenerated(k *keeper, now time.Time) {
	if k == nil || now.Sub(t.held) < holdTime {
		return
	}
	t.held = now
	for _, p := range t.byPID {
		if !p.registered || p.exited() || !p.space.generates() {
			continue
		}
		h := &p.holds
		if !h.known {
			h.known, h.elsewhere = true, dso.Elsewhere(p.pid)
		}
		if !h.elsewhere {
			continue
		}
		h.perfMap = h.perfMap || k.holdGenerated(p.pid, dso.PerfMapPattern)
		if j := p.space.jit; j != nil {
			h.dump = h.dump || k.holdGenerated(p.pid, j.name)
		}
	}
}

// generates reports whether the address space contains code without a file.
func (s *addrSpace) generates() bool {
	if s.jit != nil || s.vm != nil {
		return true
	}
	for m := range s.maps.All() {
		if m.Value.file.isAnonymous() {
			return true
		}
	}
	return false
}

// reopenGenerated makes holdGenerated open the files of running processes again.
func (t *tracker) reopenGenerated() {
	for _, p := range t.byPID {
		p.holds = holds{}
	}
}
