package script

import (
	"gperf/format"
	"gperf/internal/text"
)

// isBPFOutput reports whether a BPF program wrote the event's raw data.
func isBPFOutput(a *format.Attr) bool {
	return a.Type == format.TypeSoftware && a.Config == format.SWBPFOutput
}

const bytesInLine = 8

// appendBPFOutput appends the data of a BPF program, in hexadecimal and in
// characters, and again as a string if it is one.
func appendBPFOutput(b, data []byte) []byte {
	b = append(b, '\n')
	for at := 0; at < len(data); at += bytesInLine {
		b = appendBPFLine(b, data, at)
	}
	if text, ok := textOf(data); ok {
		b = append(append(b, "      BPF string: \""...), text...)
		b = append(b, "\"\n"...)
	}
	return b
}

func appendBPFLine(b, data []byte, at int) []byte {
	const hex = "0123456789abcdef"
	if at == 0 {
		b = append(b, "      BPF output: "...)
	} else {
		b = text.AppendBlanks(b, 18)
	}
	for shift := 12; shift >= 0; shift -= 4 {
		b = append(b, hex[at>>shift&15])
	}
	b = append(b, ':')
	line := data[at:min(at+bytesInLine, len(data))]
	for _, c := range line {
		b = append(b, ' ', hex[c>>4], hex[c&15])
	}
	b = text.AppendBlanks(b, 3*(bytesInLine-len(line))+2)
	for _, c := range line {
		if !printable(c) {
			c = '.'
		}
		b = append(b, c)
	}
	return append(text.AppendBlanks(b, bytesInLine-len(line)), '\n')
}

// printable is the isprint of the kernel's lib/ctype.c, which goes by Latin-1.
func printable(c byte) bool { return c >= ' ' && c <= '~' || c >= 0xa0 }

// textOf returns data up to its first NUL. ok is false unless that is printable
// and only NULs follow.
func textOf(data []byte) (text []byte, ok bool) {
	n := 0
	for n < len(data) && printable(data[n]) {
		n++
	}
	for _, c := range data[n:] {
		if c != 0 {
			return nil, false
		}
	}
	return data[:n], n < len(data)
}
