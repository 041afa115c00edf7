package script

import (
	"testing"

	"gperf/format"
	"gperf/internal/session"
)

// The texts are perf 7.3's.
func TestDataSource(t *testing.T) {
	for src, want := range map[uint64]string{
		0x11868100242: "     11868100242 |OP LOAD|LVL LFB/MAB hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A",
		0x1026a100142: "     1026a100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK Yes|BLK  N/A",
		0x10650100842: "     10650100842 |OP LOAD|LVL L3 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A",
		0x5080144:     "         5080144 |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A|BLK  N/A",
		0:             "               0 |OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A",
		1:             "               1 |OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A",
		0x10:          "              10 |OP EXEC|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  N/A",
		0x103401000042: "    103401000042 |OP LOAD|LVL Remote node, same socket I/O hit|SNP N/A|TLB N/A|LCK " +
			"N/A|BLK  N/A",
		0x102e01000042: "    102e01000042 |OP LOAD|LVL Remote node, same socket Unknown level 7 hit|SNP N/A|TLB " +
			"N/A|LCK N/A|", // perf's buffer ends here
		6 << 40:         "     60000000000 |OP No|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK  Data Addr",
		1<<38 | 1<<21:   "      4000200000 |OP No|LVL N/A|SNP Hit or Fwd|TLB N/A|LCK No|BLK  N/A",
		1<<39 | 1<<7<<5: "      8000001000 |OP No|LVL Local RAM |SNP Peer|TLB N/A|LCK No|BLK  N/A",
	} {
		if got := string(appendDataSource([]byte("x"), src)); got != "x"+want {
			t.Errorf("%#x:\n got %q\nwant %q", src, got[1:], want)
		}
	}
}

// A column is as wide as the widest entry so far, in whatever batch that was.
func TestDataWidths(t *testing.T) {
	const narrow, wide = 0, 0x11868100242
	d := dataWidths{fields: []Field{FieldDataSrc, 0}}
	batch := func(event int, src ...uint64) *session.Batch {
		b := new(session.Batch)
		for _, v := range src {
			s := session.Sample{}
			s.Event, s.DataSrc = event, v
			b.Samples = append(b.Samples, s)
		}
		return b
	}
	n, w := len(appendDataSource(nil, narrow)), len(appendDataSource(nil, wide))
	for i, step := range []struct {
		batch  *session.Batch
		before int
	}{
		{batch(0, narrow), 0}, {batch(1, wide), n}, {batch(0, narrow, wide, narrow), n}, {batch(0, narrow), w},
	} {
		if got := d.before(step.batch); got != step.before {
			t.Errorf("batch %d: %d before it, want %d", i, got, step.before)
		}
	}
}

func TestWeights(t *testing.T) {
	const word = 0x0003_0002_00000001
	sample := &format.Sample{Weight: word}
	whole, parts := &format.Attr{SampleType: format.SampleWeight}, &format.Attr{SampleType: format.SampleWeightStruct}
	if w, i, r := sample.Weights(whole); w != word || i != 0 || r != 0 {
		t.Errorf("one weight: %d %d %d", w, i, r)
	}
	if w, i, r := sample.Weights(parts); w != 1 || i != 2 || r != 3 {
		t.Errorf("three weights: %d %d %d", w, i, r)
	}
}

func TestPageSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "N/A", 1024: "1024B", 4096: "4K", 2 << 20: "2M", 1 << 30: "1024M",
		16 << 30: "16G"} {
		if got := string(appendPageSize(nil, n)); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
