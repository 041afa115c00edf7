package record

import (
	"encoding/binary"
	"slices"

	"gperf/format"
)

// sideRecord is a record of the side band.
type sideRecord struct {
	time uint64
	rec  format.Record
}

// scan reads the side band of a ring up to head.
func (d *dwarf) scan(i int, head uint64) {
	r := d.joiners[i].ring
	pos := d.scanned[i]
	for pos < head {
		h := r.Word(pos)
		size := h >> 48
		if size < 8 || size > head-pos {
			break
		}
		switch t := format.Type(uint32(h)); t {
		case format.TypeMmap, format.TypeMmap2, format.TypeFork, format.TypeExit, format.TypeComm:
			d.tell(r.Append(nil, pos, pos+size)) // a copy, because decoded records refer to it
		case format.TypeLost:
			d.side = append(d.side, sideRecord{rec: &format.Lost{}})
		}
		pos += size
	}
	d.scanned[i] = head
}

// tell stores a record of the side band until its time has come.
func (d *dwarf) tell(b []byte) {
	h := binary.LittleEndian.Uint64(b)
	id := binary.LittleEndian.Uint64(b[len(b)-8:])
	rec, err := format.ParseRecord(format.Raw{Type: format.Type(uint32(h)), Misc: format.Misc(h >> 32), Data: b[8:]}, d.types[id])
	if err != nil {
		return
	}
	var time uint64
	switch rec := rec.(type) {
	case *format.Mmap:
		time = rec.ID.Time
		if !rec.Executable() {
			return
		}
	case *format.Fork:
		time = rec.ID.Time
	case *format.Exit:
		time = rec.ID.Time
	case *format.Comm:
		time = rec.ID.Time
		if !rec.Exec {
			return
		}
	}
	d.side = append(d.side, sideRecord{time, rec})
}

// synthesized applies the recorder's synthesized records.
func (d *dwarf) synthesized(b []byte, idSize int) {
	for len(b) >= 8 {
		size := int(binary.LittleEndian.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			return
		}
		raw := format.Raw{Type: format.Type(binary.LittleEndian.Uint32(b)), Misc: format.Misc(binary.LittleEndian.Uint16(b[4:])),
			Data: b[8:max(8, size-idSize)]}
		switch raw.Type {
		case format.TypeMmap2:
			if rec, err := format.ParseRecord(raw, 0); err == nil {
				d.procs.record(rec)
			}
		case format.TypeFork:
			if rec, err := format.ParseRecord(raw, 0); err == nil && rec.(*format.Fork).PID == rec.(*format.Fork).TID {
				d.procs.replace(rec.(*format.Fork).PID, &space{})
			}
		}
		b = b[size:]
	}
}

// until applies the side-band records up to a time to procs.
func (d *dwarf) until(time uint64) {
	i := 0
	for ; i < len(d.side) && d.side[i].time <= time; i++ {
		switch rec := d.side[i].rec.(type) {
		case *format.Lost:
			d.procs.forget()
		case *format.Fork:
			d.procs.record(rec)
			d.forked(rec)
		case *format.Comm:
			d.exec(rec)
		default:
			d.procs.record(rec)
		}
	}
	d.side = slices.Delete(d.side, 0, i)
}

// forked registers a child of a sampled process with BPF, so that it is walked from its first
// sample on.
func (d *dwarf) forked(rec *format.Fork) {
	parent, child := d.procs.byPID[rec.PPID], d.procs.byPID[rec.PID]
	if rec.PID == rec.PPID || parent == nil || child == nil || !parent.on || parent.tgid != uint32(parent.pid) {
		return
	}
	child.published = published{uint32(child.pid), parent.exec, true}
	d.procs.touch(child)
}

// exec replaces a process after an exec. Its exec count increases by one.
func (d *dwarf) exec(rec *format.Comm) {
	var p published
	if old := d.procs.byPID[rec.PID]; old != nil {
		p = old.published
		p.exec++
	}
	d.procs.record(rec)
	if proc := d.procs.byPID[rec.PID]; proc != nil && p.on {
		proc.published = p
		d.procs.touch(proc)
	}
}

// gone removes a process from BPF, because its pid may be reused.
func (d *dwarf) gone(p *process) {
	if p.on {
		d.bpf.RemoveProcess(p.tgid)
	}
	d.unused(p.space)
}

// unused removes a space from BPF that no process uses any more.
func (d *dwarf) unused(s *space) {
	if s.refs == 0 && s.has {
		d.bpf.RemoveMappings(s.mappings)
		s.has = false
	}
}
