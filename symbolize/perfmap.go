package symbolize

import (
	"debug/elf"
	"fmt"
	"io"
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

// perfMapTable returns the table of the functions in a perf map's text. Its addresses are ips.
func perfMapTable(text string) *Table {
	list := make([]entry, 0, strings.Count(text, "\n"))
	for fn := range jit.Functions(text) {
		list = append(list, entry{start: fn.Start, end: fn.End, name: fn.Name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL})
	}
	b := tableBuilder{show: func(e *entry) string { return e.name }}
	b.add(list)
	return b.table()
}
