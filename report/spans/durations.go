package spans

import (
	"math/bits"
	"slices"
)

// durations counts durations. Its memory does not grow with their number.
type durations struct {
	count, failed   uint64
	total, min, max uint64
	buckets         map[uint16]uint64
}

// A bucket has the durations with the same first subBits+1 bits: its width is below 1 % of them.
const subBits = 7

func bucketOf(ns uint64) uint16 {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	return uint16(shift<<subBits) + uint16(ns>>shift)
}

// lastOf returns the longest duration of a bucket.
func lastOf(bucket uint16) uint64 {
	shift := max(int(bucket>>subBits)-1, 0)
	first := uint64(bucket) - uint64(shift<<subBits)
	return (first+1)<<shift - 1
}

func (d *durations) add(b bucket) {
	if d.count == 0 {
		d.min, d.buckets = b.min, map[uint16]uint64{}
	}
	d.count += b.count
	d.failed += b.failed
	d.total += b.total
	d.min, d.max = min(d.min, b.min), max(d.max, b.max)
	d.buckets[bucketOf(b.max)] += b.count
}

// percentile returns the duration that n percent of the spans do not exceed: at most 1 % too long, or
// 12.5 % for spans of histograms.
func (d *durations) percentile(n uint64) uint64 {
	rest := (d.count*n + 99) / 100
	for _, b := range d.sorted() {
		if rest <= d.buckets[b] {
			return min(lastOf(b), d.max)
		}
		rest -= d.buckets[b]
	}
	return d.max
}

func (d *durations) sorted() []uint16 {
	var list []uint16
	for b := range d.buckets {
		list = append(list, b)
	}
	slices.Sort(list)
	return list
}

// powers returns the number of durations from 1<<i to below 1<<(i+1), by i, and the first and the last i with
// any. Durations of 0 count as 1.
func (d *durations) powers() (counts [64]uint64, first, last int) {
	first = len(counts)
	for b, n := range d.buckets {
		i := max(bits.Len64(lastOf(b))-1, 0)
		counts[i] += n
		first, last = min(first, i), max(last, i)
	}
	return counts, first, last
}
