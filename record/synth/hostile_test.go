package synth

import (
	"os"
	"syscall"
	"testing"
	"time"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/testutil/inputs"
)

// TestHostileMappings: all that a process may map, as code that may be a copy of a file far away.
func TestHostileMappings(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps := []procfs.Mapping{{Start: 0x400000, End: 0x401000, Path: self, Inode: 1}}
	for i := range uint64(65_500) {
		m := procfs.Mapping{Start: 0x7f0000000000 + 2*i*pageSize, Prot: syscall.PROT_EXEC}
		m.End = m.Start + pageSize
		if i%2 == 1 {
			m.Path, m.Inode = "/tmp/x (deleted)", 2
		}
		maps = append(maps, m)
	}
	inputs.AtMost(t, "the search for copies", 2*time.Second, 256<<20, func() {
		if found := copiesIn(os.Getpid(), maps); len(found) > 0 {
			t.Errorf("%d copies are found", len(found))
		}
	})
}

// TestHostileMapped: a process that maps memory for code very often costs no memory for each mapping.
func TestHostileMapped(t *testing.T) {
	var c Copies
	m := format.Mmap{PID: 1, Len: 4096, Filename: "//anon", Misc: format.MiscUser, Prot: syscall.PROT_EXEC}
	for i := range uint64(100_000) {
		m.Start = i << 12
		c.Mapped(&m)
	}
	if n := len(c.copying[1].mapped); n != maxCopying {
		t.Errorf("%d mappings are noted, not %d", n, maxCopying)
	}
}
