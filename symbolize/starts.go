package symbolize

import (
	"cmp"
	"slices"
	"sync"

	"gperf/internal/dso"
	"gperf/unwind"
)

// functionStarts finds the functions of DSOs by their FDEs, for addresses without a symbol.
type functionStarts struct {
	locator *dso.Locator

	mu   sync.Mutex
	dsos map[dsoKey]func() []functionRange // each reads the FDEs once
}

// functionRange is the code of a function: offs start to end-1.
type functionRange struct{ start, end, vaddr uint64 }

func newFunctionStarts(opts Options) *functionStarts {
	return &functionStarts{locator: opts.Locator, dsos: map[dsoKey]func() []functionRange{}}
}

// FunctionStart returns the vaddr at which the function with file offset off starts, in the DSO recorded at path with
// build ID id (zero if not recorded). ok is false if no FDE of the file covers off.
func (f *functionStarts) FunctionStart(path string, id dso.BuildID, off uint64) (vaddr uint64, ok bool) {
	key := dsoKey{path, id}
	f.mu.Lock()
	read := f.dsos[key]
	if read == nil {
		read = sync.OnceValue(func() []functionRange { return f.read(key) })
		f.dsos[key] = read
	}
	f.mu.Unlock()
	list := read()
	i, found := slices.BinarySearchFunc(list, off, func(r functionRange, off uint64) int {
		return cmp.Compare(r.start, off)
	})
	if !found {
		i--
	}
	if i < 0 || off >= list[i].end {
		return 0, false
	}
	return list[i].vaddr, true
}

// read returns the functions of a DSO by offset, none if its file or its FDEs cannot be read.
func (f *functionStarts) read(key dsoKey) (list []functionRange) {
	im, err := f.locator.Find(key.path, key.id)
	if err != nil {
		return nil
	}
	defer im.Close()
	return functionRanges(im)
}

// functionRanges returns the functions with FDEs of a file by offset, none if its FDEs cannot be read.
func functionRanges(im *dso.Image) (list []functionRange) {
	cfi, err := unwind.NewCFI(im)
	if err != nil {
		return nil
	}
	for start, end := range cfi.Functions() {
		if off, ok := im.OffOfVaddr(start); ok {
			list = append(list, functionRange{off, off + end - start, start})
		}
	}
	slices.SortFunc(list, func(a, b functionRange) int { return cmp.Compare(a.start, b.start) })
	return list
}
