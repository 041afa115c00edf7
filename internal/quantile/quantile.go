// Package quantile counts durations by length, in little memory, and returns percentiles.
package quantile

import (
	"maps"
	"math/bits"
	"slices"
)

// Durations counts durations in ns by length. The memory that it uses does not grow with the number of durations.
// The zero value is empty.
type Durations struct {
	n       uint64
	longest uint64
	buckets map[uint16]uint64
}

// A bucket counts the durations with the same first subBits+1 bits: the width of a bucket is below 1 % of a
// duration in it.
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

// Add adds n durations of this length.
func (d *Durations) Add(ns, n uint64) {
	if d.buckets == nil {
		d.buckets = map[uint16]uint64{}
	}
	d.n += n
	d.longest = max(d.longest, ns)
	d.buckets[bucketOf(ns)] += n
}

// N returns the number of durations.
func (d *Durations) N() uint64 { return d.n }

// Longest returns the longest duration.
func (d *Durations) Longest() uint64 { return d.longest }

// Percentile returns the duration that percent of them do not exceed: at most 1 % too long.
func (d *Durations) Percentile(percent uint64) uint64 {
	rest := (d.n*percent + 99) / 100
	for _, b := range slices.Sorted(maps.Keys(d.buckets)) {
		if rest <= d.buckets[b] {
			return min(lastOf(b), d.longest)
		}
		rest -= d.buckets[b]
	}
	return d.longest
}

// Powers returns the number of durations from 1<<i to below 1<<(i+1), by i, and the first and the last i with
// any. Durations of 0 count as 1.
func (d *Durations) Powers() (counts [64]uint64, first, last int) {
	first = len(counts)
	for b, n := range d.buckets {
		i := max(bits.Len64(lastOf(b))-1, 0)
		counts[i] += n
		first, last = min(first, i), max(last, i)
	}
	return counts, first, last
}
