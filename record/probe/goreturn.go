package probe

import "fmt"

// goReturns returns the instructions that return from a Go function. A uretprobe puts its own
// address on the stack, which makes Go crash when it moves the stack.
func (f *file) goReturns(p place) ([]place, error) {
	var l []place
	end := p.function.Off
	for off, insn := range f.instructions(p.function) {
		end = off + uint64(len(insn))
		if f.returns(insn) {
			l = append(l, place{event: p.event, off: off, function: p.function, return_: true})
		}
	}
	name := p.function.Name()
	switch {
	case end != p.function.Off+p.function.Size || p.function.Size == 0:
		return nil, &FunctionError{File: f.path, Name: name, Why: fmt.Sprintf("Go moves stacks, so a return probe would crash it; gperf probes return instructions instead, "+
			"but cannot decode the one at +%#x: find them with `go tool objdump`, and probe %s+OFFSET", end-p.function.Off, name)}
	case len(l) == 0:
		return nil, &FunctionError{File: f.path, Name: name, Why: "it has no return instruction: it ends in another function, or never"}
	}
	return l, nil
}
