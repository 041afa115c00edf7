package session

import (
	"slices"
	"strconv"
	"strings"

	"gperf/internal/dso"
	"gperf/symbolize"
)

// Function is the function of a frame, or one that is inlined into it.
type Function struct {
	Name    string // demangled
	Raw     string // in the symbol table
	File    string // "" if unknown
	Line    int    // of the address, 0 if unknown
	Start   int    // line of the function's declaration, 0 if unknown
	Inlined bool
}

// Functions returns the functions of a frame, innermost first, or none for an unnamed frame. The name of the
// outermost function is from the symbol table. Without inline this function is the only one.
func (f *Frame) Functions(inline bool) (list []Function) {
	sym := f.Sym()
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
	if own := &list[len(list)-1]; sym != nil {
		own.Name, own.Raw = sym.Name, sym.Raw
	}
	if !inline {
		list = list[len(list)-1:]
	}
	return slices.DeleteFunc(list, func(f Function) bool { return f.Name == "" })
}

// Label returns a name for every frame, where output is to distinguish functions without names: the symbol, or else
// StartName, or else the DSO in brackets, or [unknown].
func (f *Frame) Label() string {
	name := f.Symbol()
	if name != unknown || f.Map == nil {
		return name
	}
	if start := f.StartName(); start != "" {
		return start
	}
	name = f.Map.DSO.ShortName()
	if strings.HasPrefix(name, "[") {
		return name // such as [vdso], and [JIT] tid 1
	}
	return "[" + name + "]"
}

// StartName returns the DSO and the vaddr of the start of a function without a symbol, as in openssl+0x1a2b0. It
// returns "" for functions with a symbol, and if the DSO's file contains no FDE for the address.
func (f *Frame) StartName() string {
	if p := f.pooled; p != nil {
		return p.start
	}
	if why := f.Reason(); why != symbolize.NoSymbols && why != symbolize.NoSymbol {
		return "" // the symbol is known, or there is no file
	}
	start, ok := f.functionStart()
	if !ok {
		return ""
	}
	name := dso.TrimDeleted(strings.Trim(f.Map.DSO.ShortName(), "[]"))
	return name + "+0x" + strconv.FormatUint(start, 16)
}

// functionStart returns the vaddr of the start of the frame's function. Like Calls, it looks up the call before a
// return address, or else the address itself.
func (f *Frame) functionStart() (vaddr uint64, ok bool) {
	m, symbols := f.Map, f.symbols
	if m == nil || f.Kernel || symbols == nil {
		return 0, false
	}
	off := m.Off(f.IP)
	if f.Return {
		if vaddr, ok = symbols.FunctionStart(m.DSO.Name, m.DSO.BuildID, off-1); ok {
			return vaddr, true
		}
	}
	return symbols.FunctionStart(m.DSO.Name, m.DSO.BuildID, off)
}
