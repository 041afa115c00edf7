package session

import (
	"io"
	"strconv"

	"gperf/format"
)

// Task is a thread as the recording's COMM, FORK and EXIT records have it.
type Task struct {
	*Thread
	Parent int32 // TID of the thread that started it, -1 if that is not known
	// Mappings are those of its process, by address.
	Mappings []Mapping
}

// Mapping is a mapping of a process, as its MMAP record has it.
type Mapping struct {
	Start, End, Pgoff uint64
	Prot, Flags       uint32
	ID                string // of the file: its inode, or its build ID
	Name              string
}

// Tasks reads f to its end and returns all threads, including exited ones, unordered.
// h is new. mappings adds their mappings. The result counts the skipped parts.
func (h *History) Tasks(f *format.File, mappings bool) ([]*Task, format.Skipped, error) {
	h.KeepExited, h.keepRecords = true, true
	reader := f.Records()
	var skipped format.Skipped
	for {
		raw, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			if err = h.applyTask(f, raw, mappings); err != nil && !f.Strict {
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
	for _, th := range h.threads {
		t := &Task{Thread: th, Parent: th.parent}
		for _, m := range th.space.list() {
			t.Mappings = append(t.Mappings, m.mapping())
		}
		tasks = append(tasks, t)
	}
	return tasks, skipped, nil
}

// applyTask applies a record that is about tasks.
func (h *History) applyTask(f *format.File, raw format.Raw, mappings bool) error {
	switch raw.Type {
	case format.TypeComm, format.TypeFork, format.TypeExit:
	case format.TypeMmap, format.TypeMmap2:
		if !mappings {
			return nil
		}
	default:
		return nil
	}
	rec, err := f.Record(raw)
	if err == nil {
		h.Apply(rec)
	}
	return err
}

func (m *Map) mapping() Mapping {
	r := m.record
	l := Mapping{Start: m.Start, End: m.End, Pgoff: r.Pgoff + m.Start - r.Start, Prot: r.Prot, Flags: r.Flags, Name: m.DSO.Name}
	if isVDSO(r.Filename) {
		l.Pgoff = 0
	}
	if !r.V2 && r.Executable() {
		l.Prot = format.ProtExec
	}
	switch id := m.DSO.BuildID; {
	case r.V2 && r.Misc&format.MiscMmapBuildID == 0 && !isVDSO(r.Filename):
		l.ID = strconv.FormatUint(r.Ino, 10)
	case !id.IsZero():
		l.ID = id.String()
	}
	return l
}
