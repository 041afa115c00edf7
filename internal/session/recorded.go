package session

import (
	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
)

// RecordedSymbols returns the symbols that a recording of simpleperf or hiperf contains, as symbolize.Options need
// them, or nil.
func RecordedSymbols(f *format.File) symbolize.Recorded {
	var recorded symbolize.Recorded
	for _, s := range f.SymbolFiles() {
		if len(s.Symbols) == 0 {
			continue
		}
		if recorded == nil {
			recorded = symbolize.Recorded{}
		}
		file := recorded[s.Path] // one path may be in several entries
		if s.Path != dso.KernelName {
			file.Bias = s.MinVaddr - s.Offset
		}
		for _, sym := range s.Symbols {
			file.Symbols = append(file.Symbols,
				symbolize.RecordedSymbol{Start: sym.Vaddr, End: sym.Vaddr + uint64(sym.Len), Name: sym.Name})
		}
		recorded[s.Path] = file
	}
	return recorded
}
