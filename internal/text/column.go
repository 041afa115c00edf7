// This file appends numbers and blanks to text in columns of a fixed width.

package text

import "strconv"

const blanks = "                                "

// AppendBlanks appends n blanks, none if n is negative.
func AppendBlanks(b []byte, n int) []byte {
	for ; n > len(blanks); n -= len(blanks) {
		b = append(b, blanks...)
	}
	if n > 0 {
		b = append(b, blanks[:n]...)
	}
	return b
}

// AppendInt appends v in decimal, with blanks before it up to width.
func AppendInt(b []byte, v int64, width int) []byte {
	var digits [20]byte
	return appendRight(b, strconv.AppendInt(digits[:0], v, 10), width)
}

// AppendUint appends v in decimal, with blanks before it up to width.
func AppendUint(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	return appendRight(b, strconv.AppendUint(digits[:0], v, 10), width)
}

// AppendHex appends v in hexadecimal, with blanks before it up to width.
func AppendHex(b []byte, v uint64, width int) []byte {
	var digits [20]byte
	return appendRight(b, strconv.AppendUint(digits[:0], v, 16), width)
}

func appendRight(b, text []byte, width int) []byte {
	return append(AppendBlanks(b, width-len(text)), text...)
}
