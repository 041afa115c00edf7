package report

import "strconv"

const blanks = "                                "

func appendBlanks(b []byte, n int) []byte {
	for ; n > len(blanks); n -= len(blanks) {
		b = append(b, blanks...)
	}
	if n > 0 {
		b = append(b, blanks[:n]...)
	}
	return b
}

// maxPad is how wide a column is made for the sake of others: a damaged
// recording can have names of 64 KiB, and a row for each sample.
const maxPad = 1024

// appendLeft appends s, cut and filled up to width.
func appendLeft(b []byte, s string, width int) []byte {
	s = s[:min(len(s), max(width, 0))]
	return appendBlanks(append(b, s...), min(width, maxPad)-len(s))
}

// appendRight appends s, cut to width, with blanks before it.
func appendRight(b []byte, s string, width int) []byte {
	s = s[:min(len(s), max(width, 0))]
	return append(appendBlanks(b, min(width, maxPad)-len(s)), s...)
}

func appendInt(b []byte, v int64, width int) []byte {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], v, 10)
	return append(appendBlanks(b, width-len(d)), d...)
}

// appendShort appends a count as perf does, in thousands, millions, …, for
// example 83K. A blank replaces the unit of small counts.
func appendShort(b []byte, n uint64) []byte {
	v, unit := float64(n), byte(' ')
	for _, u := range [...]byte{'K', 'M', 'G'} {
		if v <= 1000 {
			break
		}
		v, unit = v/1000, u
	}
	return append(strconv.AppendUint(b, uint64(v), 10), unit)
}
