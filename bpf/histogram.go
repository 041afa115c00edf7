package bpf

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
)

// Histogram makes the programs of a [Span] count durations in place of samples.
type Histogram struct {
	// CPUs, if not nil, are those on which spans are counted.
	CPUs []int
	// Keys select the fields of a pair's key that get separate histograms.
	Keys [MaxPairKeys]bool
}

// MaxBuckets is the maximum number of buckets in all histograms of a [Span].
const MaxBuckets = 65536

// Bucket counts the spans of a histogram whose durations start with the same bits.
type Bucket struct {
	BucketKey
	PID, TID      uint32
	Count, Failed uint64
	Total         uint64 // ns
	Min, Max      uint64 // ns; the shortest and the longest
	Last          uint64 // when the last one ended, by CLOCK_MONOTONIC
}

// BucketKey identifies a Bucket.
type BucketKey struct {
	Event  uint16              // the event's number
	Thread uint64              // 0: any
	Words  [MaxPairKeys]uint64 // the number of the system call, or the values of the key's fields
	Bucket uint64
}

// subBits divides a power of two into 1 << subBits buckets: a bucket counts the durations with the same first subBits+1
// bits, which differ by 12.5 % at most.
//
//bpf:define subBits SUB_BITS
const subBits = 3

// Bounds returns the shortest duration of the bucket, and the first one after it, in ns. It
// returns 0 for the latter if no duration of 64 bits follows.
func (k *BucketKey) Bounds() (first, after uint64) {
	shift := uint64(0)
	if k.Bucket>>subBits > 0 {
		shift = k.Bucket>>subBits - 1
	}
	first = (k.Bucket - shift<<subBits) << shift
	return first, first + 1<<shift
}

// bucketOf returns the number of a duration's bucket: as bucket_of of histogram.h.
func bucketOf(ns uint64) uint64 {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	return uint64(shift)<<subBits + ns>>shift
}

//bpf:struct bucket_key
type bucketKey struct {
	Thread uint64 // pid and tid in the initial PID namespace; 0: any
	Words  [MaxPairKeys]uint64
	Bucket uint64
}

//bpf:struct bucket
type bucket struct {
	Count, Failed   uint64
	Total, Min, Max uint64 // ns
	Last            uint64 // when the last one ended
	PID, TID        uint32 // in the recorder's PID namespace
}

// vars returns the constants of the programs.
func (h *Histogram) vars(filter *Filter) map[string]any {
	var groupBy [MaxPairKeys]uint64
	for i, on := range h.Keys {
		if on {
			groupBy[i] = ^uint64(0)
		}
	}
	return map[string]any{"histograms": uint32(1), "filtered": flag(filter != nil), "group_by": groupBy,
		"some_cpus": flag(h.CPUs != nil)}
}

// selectCPUs sets the CPUs on which spans are counted.
func (h *Histogram) selectCPUs(m *ebpf.Map) error {
	for _, cpu := range h.CPUs {
		if err := m.Put(uint32(cpu), uint8(1)); err != nil {
			return fmt.Errorf("recorded CPUs: %w", err)
		}
	}
	return nil
}

// Buckets returns the buckets of all histograms.
func (e *Sampler) Buckets() (l []Bucket, err error) {
	for _, p := range e.spans {
		if !p.histograms {
			continue
		}
		var k bucketKey
		var b bucket
		all := p.maps.Maps["buckets"].Iterate()
		for all.Next(&k, &b) {
			id := p.id
			if p.open == openCalls { // of several functions
				id = uint16(k.Words[0])
			}
			l = append(l, Bucket{BucketKey{id, k.Thread, k.Words, k.Bucket}, b.PID, b.TID, b.Count, b.Failed,
				b.Total, b.Min, b.Max, b.Last})
		}
		if err := all.Err(); err != nil {
			return nil, fmt.Errorf("reading histograms: %w", err)
		}
	}
	return l, nil
}
