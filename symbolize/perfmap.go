package symbolize

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"gperf/internal/dso"
	"gperf/symbolize/jit"
)

// maxPerfMap limits the text, in bytes; large ones have about 10 MB.
const maxPerfMap = 1 << 29

func loadPerfMap(f *dso.Locator, pid int32) (*Table, error) {
	file, err := f.OpenOf(pid, dso.PerfMapPattern)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPerfMap))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dso.PerfMap(pid), err)
	}
	table := perfMapTable(string(text))
	if table.Len() == 0 {
		return nil, fmt.Errorf("%s: %w", dso.PerfMap(pid), dso.ErrNoSymbols)
	}
	return table, nil
}

// perfMapTable returns the table of the functions in a perf map's text. Its addresses are ips. At addresses that a
// process has used again, the last line counts. In perf, it depends on the shape of a tree.
func perfMapTable(text string) *Table {
	list := make([]entry, 0, strings.Count(text, "\n"))
	for fn := range jit.Functions(text) {
		list = append(list, entry{start: fn.Start, end: fn.End, name: fn.Name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL})
	}
	return newTable(list, lastOf(list), func(e *entry) string { return e.name })
}

// lastOf returns a search for the last entry of list at an address.
func lastOf(list []entry) func(addr uint64) int {
	end := func(e *entry) uint64 { return max(e.end, e.start+1) } // an entry without a size has one address
	bounds := make([]uint64, 0, 2*len(list))
	for i := range list {
		bounds = append(bounds, list[i].start, end(&list[i]))
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	// Between two bounds, addresses belong to one entry: to the last one, so that later entries come first here. free
	// leads to the next bound after which no entry owns the addresses.
	owners, free := make([]int32, len(bounds)), make([]int32, len(bounds))
	for i := range bounds {
		owners[i], free[i] = -1, int32(i)
	}
	next := func(i int32) int32 {
		for free[i] != i {
			free[i] = free[free[i]]
			i = free[i]
		}
		return i
	}
	for n := len(list) - 1; n >= 0; n-- {
		from, _ := slices.BinarySearch(bounds, list[n].start)
		to, _ := slices.BinarySearch(bounds, end(&list[n]))
		for i := next(int32(from)); int(i) < to; i = next(i) {
			owners[i], free[i] = int32(n), i+1
		}
	}
	return func(addr uint64) int {
		i, found := slices.BinarySearch(bounds, addr)
		if !found {
			i--
		}
		if i < 0 {
			return -1
		}
		return int(owners[i])
	}
}
