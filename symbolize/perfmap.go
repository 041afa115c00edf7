package symbolize

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"gperf/internal/dso"
)

// PerfMapName is the DSO of code that a process made at run time, and the file
// in which it may name it, %d being its number.
const PerfMapName = "/tmp/perf-%d.map"

// PerfMap returns the name of the DSO for code that process pid generated at run
// time.
func PerfMap(pid int32) string { return fmt.Sprintf(PerfMapName, pid) }

// PerfMapPID is the inverse of PerfMap.
func PerfMapPID(name string) (pid int32, ok bool) {
	number, ok := strings.CutPrefix(name, "/tmp/perf-")
	if !ok {
		return 0, false
	}
	number, ok = strings.CutSuffix(number, ".map")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), ok && err == nil
}

// maxPerfMap limits the text, in bytes; large ones have about 10 MB.
const maxPerfMap = 1 << 29

func loadPerfMap(f *dso.Finder, pid int32) (*Table, error) {
	file, err := f.OpenOf(pid, PerfMapName)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPerfMap))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", PerfMap(pid), err)
	}
	table := parsePerfMap(string(text))
	if table.Len() == 0 {
		return nil, fmt.Errorf("%s: %w", PerfMap(pid), dso.ErrNoSymbols)
	}
	return table, nil
}

// parsePerfMap reads lines of "address size name", both in hexadecimal
// (Documentation/jit-interface.txt of perf). It accepts the same lines as perf
// (dso__load_perf_map in tools/perf/util/symbol.c): it skips names of one or two
// letters, and reads an invalid number as 0. Addresses are ips.
func parsePerfMap(text string) *Table {
	list := make([]entry, 0, strings.Count(text, "\n"))
	for line := range strings.SplitSeq(text, "\n") {
		if e, ok := parsePerfMapLine(line); ok {
			list = append(list, e)
		}
	}
	b := builder{show: func(e *entry) string { return e.name }}
	b.add(list)
	return b.table()
}

func parsePerfMapLine(line string) (e entry, ok bool) {
	start, rest, ok := cutHex(line)
	if !ok {
		return e, false
	}
	size, name, ok := cutHex(rest)
	if !ok {
		return e, false
	}
	end := start + size
	if end < start {
		end = ^uint64(0)
	}
	return entry{start: start, end: end, name: name, typ: elf.STT_FUNC, bind: elf.STB_GLOBAL}, true
}

// cutHex cuts a hexadecimal number, which may be empty, and the character after it
// off s. ok is false unless more than two characters are left.
func cutHex(s string) (n uint64, rest string, ok bool) {
	digits := strings.TrimPrefix(s, "0x")
	rest = strings.TrimLeft(digits, "0123456789abcdefABCDEF")
	n, err := strconv.ParseUint(digits[:len(digits)-len(rest)], 16, 64)
	if errors.Is(err, strconv.ErrRange) {
		n = math.MaxUint64
	}
	if len(rest) <= 3 {
		return 0, "", false
	}
	return n, rest[1:], true
}
