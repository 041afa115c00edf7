package bpf

import "testing"

// Each duration is within the bounds of the bucket, and the bounds are as close as documented.
func TestBuckets(t *testing.T) {
	next := uint64(0)
	for n := range bucketOf(1<<64-1) + 1 {
		first, after := (&BucketKey{Bucket: n}).Bounds()
		if first != next || after-first > max(1, first>>subBits) || bucketOf(first) != n || bucketOf(after-1) != n {
			t.Errorf("bucket %d: from %d, want %d, to %d", n, first, next, after)
		}
		next = after
	}
	if next != 0 {
		t.Errorf("the last bucket ends before %d", next)
	}
}
