package srcline

import (
	"errors"
	"fmt"

	"gperf/internal/dso"
)

// openGo opens the table of a Go program.
func openGo(im *dso.Image) (*dso.GoFunctions, error) {
	g, err := dso.OpenGoFunctions(im)
	if errors.Is(err, dso.ErrNone) {
		return nil, fmt.Errorf("%w: %w", err, ErrNoLines)
	}
	return g, err
}

// GoFunction is the code of a function of a Go program.
type GoFunction struct {
	Name        string
	Vaddr, Size uint64 // size in bytes, with the bytes up to the next function
}

// GoFunctions returns the functions in the table that a Go program has for stack traces, by address. The error is
// ErrNoLines if the file has none.
func GoFunctions(im *dso.Image) (list []GoFunction, err error) {
	g, err := openGo(im)
	if err != nil {
		return nil, err
	}
	for i := range g.Len() {
		if f, ok := g.Func(i); ok && f.Name() != "" && f.End > f.Entry {
			list = append(list, GoFunction{f.Name(), f.Entry, f.End - f.Entry})
		}
	}
	return list, nil
}

// goLookup returns the functions at a vaddr of a Go program, like Index.Lookup.
func goLookup(g *dso.GoFunctions, vaddr uint64) (calls []InlineFrame) {
	f, ok := g.Find(vaddr)
	if !ok {
		return nil
	}
	for len(calls) < maxChain {
		file, line, ok := f.Line(vaddr)
		if !ok && len(calls) == 0 { // after the code of a function
			return nil
		}
		call := InlineFrame{Function: f.Name(), File: file, Line: line, StartLine: f.StartLine}
		in, ok := f.Inlined(vaddr)
		if !ok {
			return append(calls, call)
		}
		call.Function, call.StartLine, call.Inlined = in.Name, in.StartLine, true
		calls = append(calls, call)
		vaddr = in.Parent
	}
	return nil // the tree is corrupt: a loop
}
