package program

import "fmt"

// goReturns returns the instructions that return from a Go function. A uretprobe puts its own
// address on the stack, which makes Go crash when it moves the stack.
func (f *File) goReturns(fn *Function) ([]Site, error) {
	var l []Site
	end := fn.Off
	for off, insn := range f.instructions(fn) {
		end = off + uint64(len(insn))
		if f.returns(insn) {
			l = append(l, Site{Off: off, Function: fn, AtReturn: true})
		}
	}
	name := fn.Name()
	switch {
	case end != fn.Off+fn.Size || fn.Size == 0:
		return nil, &FunctionError{File: f.path, Name: name,
			Why: fmt.Sprintf("Go moves stacks, so a return probe would crash it; gperf probes return instructions "+
				"instead, but cannot decode the one at +%#x: find them with `go tool objdump`, and probe %s+OFFSET",
				end-fn.Off, name)}
	case len(l) == 0:
		return nil, &FunctionError{File: f.path, Name: name,
			Why: "it has no return instruction: it ends in another function, or never"}
	}
	return l, nil
}
