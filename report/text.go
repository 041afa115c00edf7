package report

import (
	"strconv"

	"gperf/internal/text"
)

// maxPad limits the padding of a column, in bytes: a damaged recording can have names of 64 KiB,
// and a row for each sample.
const maxPad = 1024

// appendLeft appends s, cut and filled up to width.
func appendLeft(b []byte, s string, width int) []byte {
	s = s[:min(len(s), max(width, 0))]
	return text.AppendBlanks(append(b, s...), min(width, maxPad)-len(s))
}

// appendRight appends s, cut to width, with blanks before it.
func appendRight(b []byte, s string, width int) []byte {
	s = s[:min(len(s), max(width, 0))]
	return append(text.AppendBlanks(b, min(width, maxPad)-len(s)), s...)
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
