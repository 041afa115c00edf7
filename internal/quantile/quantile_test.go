package quantile

import "testing"

func TestPercentile(t *testing.T) {
	var d Durations
	for ns := range uint64(1000) {
		d.Add(ns+1, 1)
	}
	if p := d.Percentile(50); p < 500 || p > 505 {
		t.Errorf("p50 is %d", p)
	}
	if p := d.Percentile(99); p < 990 || p > 1000 {
		t.Errorf("p99 is %d", p)
	}
}

func TestBuckets(t *testing.T) {
	for _, ns := range []uint64{0, 1, 127, 128, 255, 256, 257, 511, 512, 1<<40 + 12345, 1<<64 - 1} {
		if last := lastOf(bucketOf(ns)); last < ns || last-ns > ns/100 || bucketOf(last) != bucketOf(ns) {
			t.Errorf("%d: the bucket ends with %d", ns, last)
		}
	}
}
