package session

import (
	"slices"
	"strconv"
	"strings"

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

// Label returns a name for every frame, where output is to distinguish functions without names: its symbol, or else
// its StartName, or else its DSO in brackets, or [unknown].
func (f ChainFrame) Label() string {
	name := f.Frame.Symbol()
	if name != unknown || f.Frame.Map == nil {
		return name
	}
	if start := f.StartName(); start != "" {
		return start
	}
	name = f.Frame.Map.DSO.ShortName()
	if strings.HasPrefix(name, "[") {
		return name // such as [vdso], and [JIT] tid 1
	}
	return "[" + name + "]"
}

// StartName returns the DSO and the vaddr of the start of a function without a symbol, as in openssl+0x1a2b0. It
// returns "" for functions with a symbol, and if the DSO's file has no FDE for the address.
func (f ChainFrame) StartName() string {
	if p := f.Frame.pooled; p != nil {
		return p.start
	}
	if why := f.Frame.Reason(); why != symbolize.NoSymbols && why != symbolize.NoSymbol {
		return "" // the symbol is known, or there is no file
	}
	start, ok := f.functionStart()
	if !ok {
		return ""
	}
	dso := strings.TrimSuffix(strings.Trim(f.Frame.Map.DSO.ShortName(), "[]"), " (deleted)")
	return dso + "+0x" + strconv.FormatUint(start, 16)
}

// functionStart returns the vaddr of the start of the frame's function. Like Calls, it looks up the call before a
// return address, or else the address itself.
func (f ChainFrame) functionStart() (vaddr uint64, ok bool) {
	m, symbols := f.Frame.Map, f.Frame.symbols
	if m == nil || f.Frame.Kernel || symbols == nil {
		return 0, false
	}
	off := m.Off(f.Frame.IP)
	if f.Caller {
		if vaddr, ok = symbols.FunctionStart(m.DSO.Name, m.DSO.BuildID, off-1); ok {
			return vaddr, true
		}
	}
	return symbols.FunctionStart(m.DSO.Name, m.DSO.BuildID, off)
}
