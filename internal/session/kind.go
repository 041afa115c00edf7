package session

import (
	"regexp"

	"gperf/internal/dso"
)

// Kind is the kind of code that a frame is in.
type Kind uint8

const (
	KindUnknown Kind = iota // the address is in no mapping
	KindKernel
	KindNative
	KindJIT     // machine code that a runtime made, whose names it wrote itself
	KindRuntime // a function of a runtime such as Python, which the recorder read from the process
)

// perfMap matches the names of DSOs with code of JITs.
var perfMap = regexp.MustCompile(`^/tmp/perf-[0-9]+\.map$`)

// Kind returns the kind of code that the frame is in.
func (f *Frame) Kind() Kind {
	switch {
	case f.Kernel:
		return KindKernel
	case f.Map == nil:
		return KindUnknown
	case dso.IsFunctions(f.Map.DSO.Name):
		return KindRuntime
	case f.Origin() == dso.OriginJIT || perfMap.MatchString(f.DSO()):
		return KindJIT
	}
	return KindNative
}
