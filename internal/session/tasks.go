package session

import (
	"io"
	"strconv"

	"gperf/format"
	"gperf/internal/dso"
)

// Task is a thread as the recording's COMM, FORK and EXIT records describe it.
type Task struct {
	*Thread
	Parent int32 // TID of the thread that started it, -1 if unknown
	// Mappings are the mappings of the task's process, in the order of addresses.
	Mappings []Mapping
}

// Mapping is a mapping of a process, as described by the MMAP record.
type Mapping struct {
	Start, End, Pgoff uint64
	Prot, Flags       uint32
	ID                string // inode number or build ID of the file
	Name              string
}

// Tasks reads the recording and returns all threads, including exited ones, unordered, with mappings if mappings is
// set. The result counts the skipped parts.
func (s *Session) Tasks(mappings bool) ([]*Task, format.Skipped, error) {
	m := newMachine(&Options{File: s.File, Symbols: s.Symbols, KeepExited: true}, true)
	reader := s.File.Records()
	var skipped format.Skipped
	for {
		raw, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err == nil && isOfTask(raw.Type, mappings) {
			var rec format.Record
			if rec, err = s.File.Record(raw); err == nil {
				m.apply(rec)
			} else if !s.File.Strict {
				skipped.Add(err)
				continue
			}
		}
		if err != nil {
			return nil, skipped, err
		}
	}
	skipped.Merge(reader.Skipped)
	var tasks []*Task
	for _, th := range m.threads {
		t := &Task{Thread: th, Parent: th.parent}
		for _, mp := range th.space.maps.list() {
			t.Mappings = append(t.Mappings, mp.mapping())
		}
		tasks = append(tasks, t)
	}
	return tasks, skipped, nil
}

// isOfTask reports whether records of the type describe tasks or, if mappings is set, mappings.
func isOfTask(t format.Type, mappings bool) bool {
	switch t {
	case format.TypeComm, format.TypeFork, format.TypeExit:
		return true
	case format.TypeMmap, format.TypeMmap2:
		return mappings
	}
	return false
}

func (m *Map) mapping() Mapping {
	r := m.record
	l := Mapping{Start: m.Start, End: m.End, Pgoff: r.Pgoff + m.Start - r.Start,
		Prot: r.Prot, Flags: r.Flags, Name: m.DSO.Name}
	if dso.KindOf(r.Filename) == dso.KindVDSO {
		l.Pgoff = 0
	}
	if !r.V2 && r.Executable() {
		l.Prot = format.ProtExec
	}
	switch id := m.DSO.BuildID; {
	case r.V2 && r.Misc&format.MiscMmapBuildID == 0 && dso.KindOf(r.Filename) != dso.KindVDSO:
		l.ID = strconv.FormatUint(r.Ino, 10)
	case !id.IsZero():
		l.ID = id.String()
	}
	return l
}
