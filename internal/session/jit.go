package session

import (
	"cmp"
	"math"
	"slices"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/symbolize"
	"gperf/symbolize/jit"
)

// jitDumps are files in which processes log the code that they generate, with the time. perf inject --jit turns
// these files' records into mappings; machine adds these mappings as the recording's time advances.
type jitDumps struct {
	open map[jitKey]bool
	list []*jitDump
	next uint64 // the earliest time of code that is not mapped yet
	read []JITDump
}

// JITDump is a file in which a process logs the code that it generated.
type JITDump struct {
	PID  int32
	Path string // as the process sees it
}

type jitKey struct {
	space *process
	path  string
}

type jitDump struct {
	space *process
	dso   *DSO
	codes []jit.Code // not mapped yet
}

// jitDump reads the jitdump if a mapping is one.
func (m *machine) jitDump(r *format.Mmap, p *process, d *DSO) {
	if dso.KindOf(r.Filename) != dso.KindJITDump {
		return
	}
	key := jitKey{p, r.Filename}
	if m.jit.open[key] {
		return
	}
	if m.jit.open == nil {
		m.jit.open = map[jitKey]bool{}
	}
	m.jit.open[key] = true
	file, err := m.symbols.Locator().OpenOf(r.PID, r.Filename)
	if err != nil {
		return
	}
	defer file.Close()
	dump, err := jit.ReadDump(file)
	if err != nil {
		return
	}
	if dump.Cycles || !m.monotonic() {
		for i := range dump.Codes { // the times are of another clock: map all code at once
			dump.Codes[i].Time = 0
		}
	}
	m.jit.read = append(m.jit.read, JITDump{r.PID, r.Filename})
	m.jit.list = append(m.jit.list, &jitDump{p, d, dump.Codes})
	m.jit.next = 0
}

// clockMonotonic is CLOCK_MONOTONIC of linux/time.h.
const clockMonotonic = 1

// monotonic reports whether the times of samples and jitdumps are of the same clock.
func (m *machine) monotonic() bool {
	if len(m.file.Attrs) == 0 {
		return false
	}
	a := &m.file.Attrs[0] // the clock is the same for all
	return a.Flags&format.FlagUseClockID != 0 && a.ClockID == clockMonotonic
}

// jitUntil maps the code that was generated until time, in ns.
func (m *machine) jitUntil(time uint64) {
	if len(m.jit.list) == 0 || time < m.jit.next {
		return
	}
	m.jit.next = math.MaxUint64
	for _, d := range m.jit.list {
		for len(d.codes) > 0 && d.codes[0].Time <= time {
			c := &d.codes[0]
			d.codes = d.codes[1:]
			sym := &symbolize.Symbol{Start: c.Start, End: c.End, Name: c.Name, Raw: c.Name}
			mp := &Map{Start: c.Start, End: c.End, Pgoff: c.Start, DSO: d.dso, symbol: sym, code: c}
			d.space.maps = d.space.maps.with(mp)
		}
		if len(d.codes) > 0 {
			m.jit.next = min(m.jit.next, d.codes[0].Time)
		}
	}
}

// bpfCode returns the recorded source lines of a BPF program's function, or nil.
func (m *machine) bpfCode(sym *symbolize.Symbol) *jit.Code {
	all := m.bpfLines()
	at := func(ip uint64) int {
		i, _ := slices.BinarySearchFunc(all, ip, func(l format.BPFLine, ip uint64) int { return cmp.Compare(l.IP, ip) })
		return i
	}
	lines := all[at(sym.Start):at(sym.End)]
	if len(lines) == 0 {
		return nil
	}
	c := &jit.Code{Function: jit.Function{Start: sym.Start, End: sym.End, Name: sym.Name}}
	for _, l := range lines {
		c.Lines = append(c.Lines, jit.Line{IP: l.IP, File: l.File, Line: l.Line})
	}
	return c
}
