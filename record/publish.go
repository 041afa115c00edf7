package record

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gperf/bpf"
	"gperf/unwind"
)

// published is how the BPF programs know a process.
type published struct {
	tgid, exec uint32
	on         bool
}

// run is how the BPF programs know a space.
type run struct {
	mappings bpf.Mappings
	has      bool
	dirty    bool // mappings are not those of the space any more
}

// tablesDone takes the tables that were made, and walks what waited for them.
func (d *dwarf) tablesDone() {
	any := false
	for {
		select {
		case b := <-d.builder.done:
			d.tableDone(b)
			any = true
			continue
		default:
		}
		break
	}
	if len(d.held) == 0 || !any && time.Since(d.held[0].since) < maxWait {
		return
	}
	kept := d.held[:0]
	for _, h := range d.held {
		if h.waits() || !d.walk(&h) {
			kept = append(kept, h)
			continue
		}
		h.space.refs--
		d.heldBytes -= len(h.data)
		d.unused(h.space)
	}
	clear(d.held[len(kept):])
	d.held = kept
}

func (d *dwarf) tableDone(b built) {
	f := b.file
	f.state = fileReady
	if b.err == nil {
		f.loaded, b.err = d.bpf.AddTable(f.table, f.entry)
	}
	if full := (*bpf.FullError)(nil); errors.As(b.err, &full) && d.makeRoom() {
		f.unload() // the next sample asks for it again
		return
	}
	if b.err != nil {
		f.state = fileFP
		d.sum.Failed++
		if !errors.Is(b.err, unwind.ErrNoCFI) {
			d.tellVerbose("no unwind table: " + b.err.Error())
		}
	} else {
		f.has = true
		d.sum.Tables++
		d.tellVerbose(fmt.Sprintf("unwind table of %s: %d rows, %d rules", f.name, len(f.table.Rows), len(f.table.Rules)))
	}
	d.changed(func(g *mappedFile) bool { return g == f })
}

// changed has BPF told again of the mappings of some files.
func (d *dwarf) changed(is func(*mappedFile) bool) {
	for _, p := range d.procs.byPID {
		if p.on && slices.ContainsFunc(p.space.maps, func(m mapping) bool { return is(m.file) }) {
			p.space.dirty = true
			d.procs.touch(p)
		}
	}
}

// makeRoom takes the tables from BPF that no walk has come by since the last
// time, or all of them. There is room a little later (and perhaps it is being
// made already). It is false if there is nothing to take.
func (d *dwarf) makeRoom() bool {
	if time.Since(d.madeRoom) < time.Second {
		return true
	}
	d.madeRoom = time.Now()
	var idle, busy []*mappedFile
	for _, f := range d.procs.files {
		switch {
		case !f.has:
		case d.bpf.TakeUsed(f.loaded):
			busy = append(busy, f)
		default:
			idle = append(idle, f)
		}
	}
	if len(idle) == 0 {
		idle = busy
	}
	for _, f := range idle {
		f.unload()
	}
	d.changed(func(f *mappedFile) bool { return f.state == fileUnknown })
	d.publish()
	for _, f := range idle {
		d.bpf.RemoveTable(f.loaded)
		f.has = false
	}
	return len(idle) > 0
}

// sweepTime is how often files are looked for that nobody has mapped any more.
const sweepTime = 10 * time.Second

// prune forgets files, and their tables here and in BPF, that no process has had
// mapped in this sweep or the one before: programs that run again and again are kept.
func (d *dwarf) prune(now time.Time) {
	if now.Sub(d.swept) < sweepTime {
		return
	}
	d.swept = now
	d.procs.sweep++
	for _, p := range d.procs.byPID {
		p.space.markMapped(d.procs.sweep)
	}
	for _, h := range d.held {
		h.space.markMapped(d.procs.sweep)
	}
	for k, f := range d.procs.files {
		if f.mapped+1 >= d.procs.sweep || f.state == filePending {
			continue
		}
		if f.has {
			d.bpf.RemoveTable(f.loaded)
		}
		delete(d.procs.files, k)
	}
}

func (s *space) markMapped(sweep int) {
	for i := range s.maps {
		s.maps[i].file.mapped = sweep
	}
}

// publish gives BPF the mappings that have changed.
func (d *dwarf) publish() {
	var old []bpf.Mappings
	for _, p := range d.procs.touched {
		if !p.on || d.procs.byPID[p.pid] != p {
			continue
		}
		if s := p.space; s.dirty || !s.has {
			if s.has {
				old = append(old, s.mappings)
			}
			if err := d.setSpace(s); err != nil {
				d.withdraw(err)
				break
			}
		}
		if err := d.bpf.SetProcess(p.tgid, p.exec, p.space.mappings); err != nil {
			d.withdraw(err)
			break
		}
	}
	for _, m := range old {
		d.bpf.RemoveMappings(m)
	}
	clear(d.procs.touched)
	d.procs.touched = d.procs.touched[:0]
}

func (d *dwarf) setSpace(s *space) (err error) {
	d.maps = d.maps[:0]
	for i := range s.maps {
		d.maps = append(d.maps, s.maps[i].kernelMapping())
	}
	s.has = false
	if s.mappings, err = d.bpf.AddMappings(d.maps); err != nil {
		return err
	}
	s.has, s.dirty = true, false
	return nil
}

// withdraw makes room where there is none for another process: BPF forgets them
// all, and is told again of those that are sampled.
func (d *dwarf) withdraw(why error) {
	d.tellVerbose(why.Error())
	for _, p := range d.procs.byPID {
		if p.on {
			d.bpf.RemoveProcess(p.tgid)
			p.on = false
		}
		if p.space.has {
			d.bpf.RemoveMappings(p.space.mappings)
			p.space.has = false
		}
	}
}

func (d *dwarf) tellVerbose(msg string) {
	if d.verbose != nil {
		d.verbose(msg)
	}
}
