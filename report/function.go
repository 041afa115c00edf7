package report

import "gperf/symbolize/replay"

// function is a function that a frame is in: its own, or one that was inlined into it.
type function struct {
	name, raw string // as shown, and as the symbol table has it
	file      string // "" where it is not known
	line      int    // likewise 0
	inlined   bool
}

// functionsOf returns the functions that a frame is in, innermost first; none where it
// has no name.
func functionsOf(f *replay.Frame, inline bool) []function {
	sym := f.Sym()
	if sym == nil {
		return nil
	}
	return []function{{name: sym.Name, raw: sym.Raw}}
}
