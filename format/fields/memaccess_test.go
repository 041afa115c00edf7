package fields

import (
	"testing"
)

// TestSource checks that the texts equal perf's.
func TestSource(t *testing.T) {
	for _, test := range []struct {
		source                         DataSource
		level, snoop, tlb, lock, block string
	}{
		{0x68100142, "L1 hit", "None", "L1 or L2 hit", "No", " N/A"},
		{0x6a100142, "L1 hit", "None", "L1 or L2 hit", "Yes", " N/A"},
		{0, "N/A", "N/A", "N/A", "No", " N/A"},
		{1<<24 | 1<<40, "N/A", "N/A", "N/A", "N/A", " N/A"},
		{0xd<<33 | 1<<37 | 1<<6 | 1<<38 | 1<<41 | 1<<42, "Remote RAM hit", "Fwd", "N/A", "No", " Data Addr"},
		{1<<10 | 1<<12 | 1<<7 | 1<<23 | 1<<31 | 1<<28, "L2 or Local RAM miss", "HitM", "Walker miss", "No", " N/A"},
	} {
		for _, text := range [][2]string{{test.source.LevelText(), test.level}, {test.source.SnoopText(), test.snoop},
			{test.source.TLBText(), test.tlb}, {test.source.LockText(), test.lock}, {test.source.BlockText(), test.block}} {
			if text[0] != text[1] {
				t.Errorf("%#x: got %q, want %q", uint64(test.source), text[0], text[1])
			}
		}
	}
}
