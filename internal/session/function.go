package session

import "slices"

// Function is the function of a frame, or one that is inlined into it.
type Function struct {
	Name    string // demangled
	Raw     string // in the symbol table
	File    string // "" if unknown
	Line    int    // of the address, 0 if unknown
	Start   int    // line of the function's declaration, 0 if unknown
	Inlined bool
}

// Functions returns the functions of a frame, innermost first, or none if it has
// no name. The outermost has its name from the symbol table, unless that is the
// function after a call that never returns. Without inline it is the only one.
func (f ChainFrame) Functions(inline bool) (list []Function) {
	sym := f.Frame.Sym()
	for _, call := range f.Calls() {
		list = append(list, Function{Name: call.Function, Raw: call.Function, File: call.File, Line: call.Line,
			Start: call.StartLine, Inlined: call.Inlined})
	}
	if len(list) == 0 && sym != nil {
		return []Function{{Name: sym.Name, Raw: sym.Raw}}
	}
	if len(list) == 0 {
		return nil
	}
	if own := &list[len(list)-1]; sym != nil && (!f.Caller || f.Frame.Off() > 0 || own.Name == "") {
		own.Name, own.Raw = sym.Name, sym.Raw
	}
	if !inline {
		list = list[len(list)-1:]
	}
	return slices.DeleteFunc(list, func(f Function) bool { return f.Name == "" })
}
