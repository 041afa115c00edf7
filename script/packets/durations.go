package packets

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// durations counts durations in ns. Its memory does not grow with their number.
type durations struct {
	count   uint64
	longest uint64
	buckets map[uint16]uint64
}

// A bucket has the durations with the same first subBits+1 bits: its width is below 1 % of them.
const subBits = 7

func (d *durations) add(ns uint64) {
	if d.buckets == nil {
		d.buckets = map[uint16]uint64{}
	}
	d.count++
	d.longest = max(d.longest, ns)
	shift := max(bits.Len64(ns)-subBits-1, 0)
	d.buckets[uint16(shift<<subBits)+uint16(ns>>shift)]++
}

// percentile returns the duration that n percent do not exceed: at most 1 % too long.
func (d *durations) percentile(n uint64) uint64 {
	var order []uint16
	for b := range d.buckets {
		order = append(order, b)
	}
	slices.Sort(order)
	rest := (d.count*n + 99) / 100
	for _, b := range order {
		if rest <= d.buckets[b] {
			return min(lastOf(b), d.longest)
		}
		rest -= d.buckets[b]
	}
	return d.longest
}

// lastOf returns the longest duration of a bucket.
func lastOf(bucket uint16) uint64 {
	shift := max(int(bucket>>subBits)-1, 0)
	return (uint64(bucket)-uint64(shift<<subBits)+1)<<shift - 1
}

// duration returns a duration, with one digit after the point.
func duration(ns uint64) string {
	switch {
	case ns == 0:
		return "0us"
	case ns < 1e6:
		return tenths(ns, 1e3, "us")
	case ns < 1e9:
		return tenths(ns, 1e6, "ms")
	}
	return tenths(ns, 1e9, "s")
}

// tenths returns a duration in a unit of so many ns, rounded to tenths.
func tenths(ns, size uint64, unit string) string {
	n := ns / (size / 10)
	if ns%(size/10) >= size/20 {
		n++
	}
	return fmt.Sprintf("%d.%d%s", n/10, n%10, unit)
}

// seconds returns a time in seconds, with six or nine digits after the point.
func seconds(ns uint64, nanosecs bool) string {
	s := strconv.FormatUint(ns/1e9, 10)
	if nanosecs {
		return fmt.Sprintf("%s.%09d", s, ns%1e9)
	}
	return fmt.Sprintf("%s.%06d", s, ns%1e9/1000)
}
