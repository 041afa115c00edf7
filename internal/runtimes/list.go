package runtimes

import (
	"io"

	"gperf/internal/procmem"
)

// frameList is a runtime that keeps the frames of functions in a list.
type frameList struct {
	code interface {
		Function(mem io.ReaderAt, f Interpreted) (*Function, error)
	}
	bias uint64
	runs ranges // vaddrs of the native function that runs the functions of the list
	// enter, if set, means that threads have several lists, such as one for each greenlet or interpreter: callers on
	// the native stack may run functions of another list. It is the vaddrs where a function is not in the list yet.
	enter *Range
	// resumed means that the list of a fiber continues with the functions that resumed the fiber, on other stacks.
	resumed bool
}

// Function implements Process. It reads a function twice, because the program may free the function meanwhile, and
// use the memory of the name for other texts. If the hash is still the same at the second time, the first result is
// right. It reads whole pages, once each time, and all of the second time together: objects of one function are often
// near each other.
func (l frameList) Function(mem io.ReaderAt, f Interpreted) (*Function, error) {
	pages := procmem.NewPages(mem, maxPages)
	defer pages.Release()
	fn, err := l.code.Function(pages, f)
	if err != nil {
		return nil, err
	}
	pages.Again()
	if _, err := l.code.Function(pages, f); err != nil {
		return nil, err
	}
	return fn, nil
}

// Frames implements Process. After each native frame of the interpreter's function come the functions that it runs: one
// group, which ends with the function that it ran first.
func (l frameList) Frames(s *Stack) []Part {
	if len(s.Interpreted) == 0 {
		return nil
	}
	parts, from, left, skip := s.parts[:0], 0, s.Interpreted, l.skipped(s)
	add := func(until, groups int) {
		p := Part{Native: s.Native[8*from : 8*until]}
		p.Functions, left = divide(left, groups)
		parts, from = append(parts, p), until
	}
	for i := range s.len() {
		if !l.runsAt(s, i) {
			continue
		}
		if skip > 0 {
			add(i, skip)
			skip = 0
		}
		if skip == 0 {
			add(i+1, 1)
		} else {
			skip++
		}
	}
	add(s.len(), len(left))
	s.parts = parts
	return parts
}

// divide returns the functions of the first groups, and the others.
func divide(l []Interpreted, groups int) (first, others []Interpreted) {
	for i, f := range l {
		if f.First {
			groups--
		}
		if groups == 0 {
			return l[:i+1], l[i+1:]
		}
	}
	return l, nil
}

// runsAt reports whether a native frame runs functions of the list.
func (l frameList) runsAt(s *Stack, i int) bool { return l.runs.contain(s.ip(i) - l.bias) }

// skipped returns how many groups of functions come before the first native frame that runs some; -1 means that
// this frame runs none. The outermost group belongs to the outermost native frame: the first native frame may be
// missing, if it is in the part of the function that no symbol names, or the frame's group may be missing, if it
// is not known yet. The innermost group belongs to the innermost native frame if there may be native frames of
// functions that are not in the list, or if the walk ended early, or if the list contains functions that run on
// other native stacks.
func (l frameList) skipped(s *Stack) (skip int) {
	for i, f := range s.Interpreted {
		if f.First || i == len(s.Interpreted)-1 {
			skip++
		}
	}
	for i := range s.len() {
		if l.runsAt(s, i) {
			skip--
		}
	}
	last := s.len() - 1
	switch {
	case !s.Complete, l.resumed && skip > 0 && last > 0 && s.Mem.BeginsFiber(s.ip(last)):
		return 0
	case skip >= 0 || l.enter == nil:
		return skip
	case l.enter.Contains(s.ip(0) - l.bias):
		return -1
	}
	return 0
}
