package export

import (
	"io"
	"testing"
)

// BenchmarkAdd measures rows of stacks with 32 frames.
func BenchmarkAdd(b *testing.B) {
	r := &Rows{Host: "h", Events: []RowEvent{{Name: "e", Unit: "count"}}}
	var stack []int32
	for i := range int32(32) {
		r.Frames = append(r.Frames, RowFrame{Function: "function" + string('a'+i), File: "file.c", Line: i + 1,
			DSO: "/usr/bin/program", BuildID: "0123456789", Kind: userFrame})
		stack = append(stack, i)
	}
	r.Stacks.Stacks = [][]int32{stack}
	all := make([]Row, chunk)
	for i := range all {
		all[i] = Row{Time: int64(i) * 1000, Comm: "program", PID: 1, TID: 2, CPU: 3, Samples: 1, Weight: 1}
	}
	w := NewParquetWriter(io.Discard, []*Rows{r})
	for i := range w.columns {
		w.columns[i].start(r)
	}
	b.ResetTimer()
	for range b.N {
		if err := w.write(r, all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*chunk/b.Elapsed().Seconds(), "rows/s")
}
