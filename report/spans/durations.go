package spans

import "gperf/internal/quantile"

// durations counts the durations of spans.
type durations struct {
	quantile.Durations
	failed, total, min uint64
}

// add adds spans. The spans of a histogram's bucket count as long as the longest one: percentiles are at most 12.5 %
// too long.
func (d *durations) add(b bucket) {
	if d.N() == 0 {
		d.min = b.min
	}
	d.Add(b.max, b.count)
	d.failed += b.failed
	d.total += b.total
	d.min = min(d.min, b.min)
}
