package hotspot

import "gperf/internal/procmem"

// unloadedClasses is the name of a counter, the same in all versions: jstat prints it, too.
const unloadedClasses = "java.cls.unloadedClasses"

const maxCounters = 4096

// counter returns the address of a counter's value, 0 if there is none: -XX:-UsePerfData turns counters off. They are
// PerfDataEntries, one after the other, in memory that starts with a PerfDataPrologue (perfMemory.hpp).
func (t *tables) counter(m *procmem.Cursor, name string) uint64 {
	for _, f := range []string{"PerfMemory._start", "PerfDataPrologue.entry_offset", "PerfDataPrologue.num_entries",
		"PerfDataEntry.entry_length", "PerfDataEntry.name_offset", "PerfDataEntry.data_offset"} {
		if _, ok := t.fields[f]; !ok {
			return 0
		}
	}
	start := m.Word(t.addr("PerfMemory._start"))
	if start == 0 {
		return 0
	}
	// A read error costs this counter only.
	c := m.Again()
	number := func(at uint64, field string) uint64 { return uint64(uint32(c.Int32(at + t.off(field)))) }
	at := start + number(start, "PerfDataPrologue.entry_offset")
	for range min(number(start, "PerfDataPrologue.num_entries"), maxCounters) {
		size := number(at, "PerfDataEntry.entry_length")
		if c.Err != nil || size == 0 {
			break
		}
		if c.String(at+number(at, "PerfDataEntry.name_offset"), maxName) == name {
			return at + number(at, "PerfDataEntry.data_offset")
		}
		at += size
	}
	return 0
}
