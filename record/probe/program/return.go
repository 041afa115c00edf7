package program

import (
	"fmt"
	"slices"
)

// returnSites returns the instructions that return from a function, for files in which a uretprobe is not
// possible: why says so. A uretprobe replaces the return address on the stack. Go crashes when it moves this
// stack, and an exception that passes it ends the program.
func (f *File) returnSites(fn *Function, why string) ([]Site, error) {
	var l []Site
	end := fn.Off
	for off, insn := range f.instructions(fn) {
		end = off + uint64(len(insn))
		if f.returns(insn) {
			l = append(l, Site{Off: off, Function: fn, AtReturn: true})
		}
	}
	name, tool := fn.Name(), "objdump -d"
	if f.isGo() {
		tool = "go tool objdump"
	}
	switch {
	case end != fn.Off+fn.Size || fn.Size == 0:
		return nil, &FunctionError{File: f.path, Name: name,
			Why: fmt.Sprintf("%s; gperf probes return instructions "+
				"instead, but cannot decode the one at +%#x: find them with `%s`, and probe %s+OFFSET",
				why, end-fn.Off, tool, name)}
	case len(l) == 0:
		return nil, &FunctionError{File: f.path, Name: name,
			Why: "it has no return instruction: it ends in another function, or never"}
	}
	return l, nil
}

// noTrampoline returns why a uretprobe would end a program of this file, "" if it would not. Only
// the functions of a span are checked for exceptions: perf's own uretprobes are as in perf.
func (s *search) noTrampoline() string {
	switch {
	case s.file.isGo():
		return "Go moves stacks, so a return probe would crash it"
	case s.KeepStack && throws(s.file):
		return "a return probe would end the program at an exception"
	}
	return ""
}

// throwing are functions that files with exceptions define or import: of C++, and of Rust.
var throwing = []string{"__cxa_throw", "__gxx_personality_v0", "rust_eh_personality", "_Unwind_RaiseException"}

// throws reports whether exceptions can pass the file's functions.
func throws(f *File) bool {
	return slices.ContainsFunc(f.functions, func(fn Function) bool { return slices.Contains(throwing, fn.Symbol) })
}
