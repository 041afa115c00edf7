package symbolize

import (
	"debug/elf"

	"gperf/internal/dso"
)

// Recorded has the symbols that a recording itself contains, by the paths of files, dso.KernelName for the kernel. They
// name addresses in missing files.
type Recorded map[string]RecordedFile

// RecordedFile has the symbols of a file.
type RecordedFile struct {
	Bias    uint64 // vaddr - offset in the file, 0 for the kernel
	Symbols []RecordedSymbol
}

// RecordedSymbol is a symbol. End is exclusive.
type RecordedSymbol struct {
	Start, End uint64 // vaddrs, for the kernel ips
	Name       string // mangled
}

// table returns the symbols of a file, or nil if the recording contains none.
func (r Recorded) table(path string, show func(*entry) string) *Table {
	file := r[path]
	if len(file.Symbols) == 0 {
		return nil
	}
	list := make([]entry, len(file.Symbols))
	for i, s := range file.Symbols {
		list[i] = entry{start: s.Start - file.Bias, end: s.End - file.Bias, name: s.Name,
			typ: elf.STT_FUNC, bind: elf.STB_GLOBAL}
	}
	b := tableBuilder{show: show}
	b.add(list)
	b.resolve()
	return b.table()
}

// kernel returns the symbols of the recorded kernel, or nil.
func (r Recorded) kernel() *Table {
	return r.table(dso.KernelName, func(e *entry) string { return e.name })
}
