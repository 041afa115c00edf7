package synth

import (
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/procfs"
)

// Copies follows processes that map memory for code while they are recorded, and finds the code that they copy there
// from files. The kernel records the mapping before the process has copied the code.
type Copies struct {
	BuildIDs bool // put build IDs into mappings
	copying  map[int32]*copying
}

// copying is a process that may copy its code.
type copying struct {
	mapped []format.Mmap // memory that may get code
	since  time.Time     // when the last of it was mapped
	next   time.Time     // when to look at the process again
}

// copyTime is how long a process may take to copy its code: it cannot run it meanwhile.
const copyTime = 10 * time.Second

// maxCopying limits the memory that is noted of a process: code is copied to few mappings, and a process may map memory
// very often.
const maxCopying = 1024

// lookShare limits the time for looking at a process without copies to one part in lookShare: runtimes with a
// just-in-time compiler map memory for code all the time.
const lookShare = 100

// Mapped notes a mapping that the kernel has recorded.
func (c *Copies) Mapped(m *format.Mmap) {
	memory := dso.KindOf(m.Filename).InMemory() || m.Flags&format.MapHugeTLB != 0 || dso.IsDeleted(m.Filename)
	if !m.Executable() || !memory || !m.IsUser() {
		return
	}
	p := c.copying[m.PID]
	if p == nil {
		p = &copying{}
		if c.copying == nil {
			c.copying = map[int32]*copying{}
		}
		c.copying[m.PID] = p
	}
	if p.since = time.Now(); len(p.mapped) < maxCopying {
		p.mapped = append(p.mapped, *m)
	}
}

// Find returns the mappings of files whose code has been copied since the last call, with times: after that of the
// memory's mapping, and not before after, the time of the newest sample of before.
func (c *Copies) Find(after uint64) (l []format.Mmap) {
	now := time.Now()
	for pid, p := range c.copying {
		switch {
		case now.Before(p.next):
		case len(p.mapped) == 0 || now.Sub(p.since) > copyTime:
			delete(c.copying, pid)
		default:
			var any bool
			if l, any = p.find(l, pid, after, c.BuildIDs); !any {
				p.next = now.Add(lookShare * time.Since(now))
			}
		}
	}
	return l
}

// find appends the copies in a process, and keeps the memory that may still get code. It reports whether any does.
func (p *copying) find(l []format.Mmap, pid int32, after uint64, buildIDs bool) (_ []format.Mmap, any bool) {
	maps, err := procfs.Maps(int(pid))
	if err != nil { // it has exited
		p.mapped = nil
		return l, false
	}
	pending := p.mapped[:0:0]
	found := copiesIn(int(pid), slices.Collect(maps))
	for _, c := range found {
		i := slices.IndexFunc(p.mapped, func(m format.Mmap) bool { return c.Start < m.Start+m.Len && m.Start < c.End })
		switch {
		case i < 0: // known before
		case c.done:
			m := c.record(int(pid), buildIDs)
			m.ID.Time = max(after, p.newest()+1)
			l = append(l, m)
		default:
			pending = append(pending, p.mapped[i])
		}
	}
	p.mapped = pending
	return l, len(found) > 0
}

// newest returns the time of the newest mapping of memory.
func (p *copying) newest() (at uint64) {
	for i := range p.mapped {
		at = max(at, p.mapped[i].ID.Time)
	}
	return at
}
