package record

import (
	"errors"
	"fmt"
	"time"

	"gperf/bpf"
	"gperf/unwind"
)

// published is a process as registered with the BPF programs.
type published struct {
	tgid, exec uint32
	on         bool
}

// run is the mappings of a space as loaded into the BPF programs.
type run struct {
	mappings bpf.Mappings
	has      bool
	dirty    bool // the space's mappings have changed since
}

// tablesDone takes the finished tables, and walks the samples that waited for them.
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
		f.unload() // the next sample requests it again
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

// changed marks the processes that map some files, so that publish passes their mappings to
// BPF again.
func (d *dwarf) changed(is func(*mappedFile) bool) {
	for _, p := range d.procs.byPID {
		if p.on && p.space.mapsFile(is) {
			p.space.dirty = true
			d.procs.touch(p)
		}
	}
}

// makeRoom removes tables from BPF: those that no walk has used since the last time, or all
// if every table was used. It returns false if there are none. Within a second of the last
// call it only returns true: then there is room, or soon will be.
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

// sweepTime is the interval at which prune looks for files that are not mapped any more.
const sweepTime = 10 * time.Second

// prune drops files, and their tables here and in BPF, that no process had mapped in this
// sweep or the previous one: files of programs that run repeatedly are kept.
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
	for m := range s.maps.All() {
		m.Value.file.mapped = sweep
	}
}

// publish passes changed mappings to BPF.
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
	for m := range s.maps.All() {
		d.maps = append(d.maps, m.Value.kernelMapping())
	}
	s.has = false
	if s.mappings, err = d.bpf.AddMappings(d.maps); err != nil {
		return err
	}
	s.has, s.dirty = true, false
	return nil
}

// withdraw removes all processes from BPF if there is no room for another one. Those that are
// sampled again are registered again.
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
