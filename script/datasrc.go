package script

import (
	"gperf/format/fields"
	"gperf/internal/session"
	"gperf/internal/text"
)

var operations = [...]string{"N/A", "LOAD", "STORE", "PFETCH", "EXEC"}

// maxDataSource is the size of perf's buffer.
const maxDataSource = 99

// dataWidths tracks the width of decoded data sources. Batches are printed
// concurrently, but each needs the column's width after the batches before it.
type dataWidths struct {
	fields []Field // by event
	widest int
	text   []byte
}

// before returns the width of the widest data source before the batch.
func (d *dataWidths) before(b *session.Batch) int {
	widest := d.widest
	for i := range b.Samples {
		if s := &b.Samples[i]; d.fields[s.Event]&FieldDataSrc != 0 {
			d.text = appendDataSource(d.text[:0], s.DataSrc)
			d.widest = max(d.widest, len(d.text))
		}
	}
	return widest
}

// appendDataSource appends a data source in hexadecimal and in words
// (perf_script__meminfo_scnprintf of tools/perf/util/mem-events.c).
func appendDataSource(b []byte, src uint64) []byte {
	start, d := len(b), fields.DataSource(src)
	b = text.AppendHex(b, src, 16)
	b = append(append(b, " |OP "...), operation(src)...)
	b = append(append(b, "|LVL "...), d.LevelText()...)
	b = append(append(b, "|SNP "...), d.SnoopText()...)
	b = append(append(b, "|TLB "...), d.TLBText()...)
	b = append(append(b, "|LCK "...), d.LockText()...)
	b = append(append(b, "|BLK "...), d.BlockText()...)
	return b[:min(len(b), start+maxDataSource)]
}

// operation names the lowest bit set in mem_op.
func operation(src uint64) string {
	for i, name := range operations {
		if src>>i&1 != 0 {
			return name
		}
	}
	return "No"
}
