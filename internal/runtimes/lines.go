package runtimes

import "math"

// lines collects the lines of a function.
type lines struct {
	list []Line
	off  uint32
	size uint32
	line int64
}

// add notes that the current line, or none, begins at the current offset.
func (l *lines) add(none bool) {
	line := int32(0)
	if !none && l.line > 0 && l.line <= math.MaxInt32 {
		line = int32(l.line)
	}
	if l.off >= l.size {
		return
	}
	if n := len(l.list); n > 0 {
		last := &l.list[n-1]
		if last.Off == l.off {
			last.Line = line
			return
		}
		if last.Line == line {
			return
		}
	}
	l.list = append(l.list, Line{l.off, line})
}
