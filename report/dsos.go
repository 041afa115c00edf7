package report

import (
	"strings"

	"gperf/format"
)

// dsoRanks returns the DSOs' names in the order in which the recording first
// tells of them, from 1 on. Perf orders what has the same weight in a call graph
// by where its DSOs lie in memory, which mostly is the order in which it made
// them.
func (o *Options) dsoRanks(f *format.File) map[string]int32 {
	ranks := map[string]int32{}
	if o.Graph.Mode == GraphNone {
		return ranks
	}
	for r := f.Records(); ; {
		raw, err := r.Next()
		if err != nil {
			return ranks
		}
		if raw.Type != format.TypeMmap && raw.Type != format.TypeMmap2 {
			continue
		}
		rec, err := f.Record(raw)
		m, ok := rec.(*format.Mmap)
		if err != nil || !ok {
			continue
		}
		name := m.Filename
		if strings.HasPrefix(name, "[kernel.kallsyms]") {
			name = "[kernel.kallsyms]"
		}
		number(ranks, name)
	}
}
