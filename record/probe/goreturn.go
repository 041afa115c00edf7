package probe

import "fmt"

// goReturns are the instructions that return from a Go function. A uretprobe puts
// an address of its own on the stack, which Go does not find its way by when it
// moves the stack: the program would crash.
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
		return nil, &FunctionError{File: f.path, Name: name, Why: fmt.Sprintf("Go moves stacks, so that a return probe would crash it; the instructions that return "+
			"would be probed instead, but the one at +%#x is not known: find them with `go tool objdump`, and probe %s+OFFSET", end-p.function.Off, name)}
	case len(l) == 0:
		return nil, &FunctionError{File: f.path, Name: name, Why: "it has no instruction that returns: it ends in another function, or never"}
	}
	return l, nil
}
