package record

import (
	"encoding/binary"

	"gperf/format"
	"gperf/record/synth"
)

// copies adds mappings of the files whose code processes have copied to memory, if BPF walks no stacks: its recorder
// needs the mappings itself, earlier.
type copies struct {
	file   *file
	idSize int
	found  synth.Copies
}

// follow begins to read the recorded mappings.
func (c *copies) follow(f *file, idSize int) {
	c.file, c.idSize = f, idSize
	c.found.BuildIDs = kernelBuildIDs(f.set.Attrs)
	f.tally.Mmap = c.mapped
}

// mapped notes a MMAP2 record.
func (c *copies) mapped(b []byte) {
	rec, err := format.ParseRecord(format.RawOf(b, c.idSize), 0)
	at := c.file.tally.Layout.TimeFromEnd
	if err != nil || at == 0 || at > len(b) {
		return
	}
	m := rec.(*format.Mmap)
	m.ID.Time = binary.LittleEndian.Uint64(b[len(b)-at:])
	c.found.Mapped(m)
}

// write writes the mappings after the records of a drain. after is the time of the newest sample before the drain.
func (c *copies) write(after uint64) error {
	var b []byte
	for _, m := range c.found.Find(after) {
		b = synth.AppendAt(b, &m, c.idSize)
	}
	if len(b) == 0 {
		return nil
	}
	if err := c.file.write(b); err != nil {
		return err
	}
	c.file.tally.Count(b)
	return nil
}
