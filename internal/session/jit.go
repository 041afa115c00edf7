package session

import (
	"cmp"
	"math"
	"path"
	"regexp"
	"slices"

	"gperf/format"
	"gperf/symbolize"
	"gperf/symbolize/jit"
)

// jitDumps are files in which processes log the code that they generate, with the
// time. perf inject --jit turns their records into mappings; History adds these
// mappings as the recording's time advances.
type jitDumps struct {
	open map[jitKey]bool
	list []*jitDump
	next uint64 // the first time at which one has something new
	read []JITDump
}

// JITDump is a file in which a process logs the code that it generated.
type JITDump struct {
	PID  int32
	Path string // as the process sees it
}

// JITDumps returns those that have been read.
func (h *History) JITDumps() []JITDump { return h.jit.read }

type jitKey struct {
	space *process
	path  string
}

type jitDump struct {
	space *process
	dso   *DSO
	codes []jit.Code // still to come
}

// jitDumpName matches the names of the files. Processes map them, so the recording
// has their paths.
var jitDumpName = regexp.MustCompile(`^jit-[0-9]+\.dump$`)

// IsJITDump reports whether a file of that name may be one.
func IsJITDump(name string) bool { return jitDumpName.MatchString(path.Base(name)) }

// jitDump registers the dump if a mapping is one.
func (h *History) jitDump(r *format.Mmap, p *process, d *DSO) {
	if !IsJITDump(r.Filename) {
		return
	}
	key := jitKey{p, r.Filename}
	if h.jit.open[key] {
		return
	}
	if h.jit.open == nil {
		h.jit.open = map[jitKey]bool{}
	}
	h.jit.open[key] = true
	file, err := h.sym.Locator().OpenOf(r.PID, r.Filename)
	if err != nil {
		return
	}
	defer file.Close()
	dump, err := jit.ReadDump(file)
	if err != nil {
		return
	}
	if dump.Cycles || !h.monotonic() {
		for i := range dump.Codes { // whose times say nothing here: all of it is there at once
			dump.Codes[i].Time = 0
		}
	}
	h.jit.read = append(h.jit.read, JITDump{r.PID, r.Filename})
	h.jit.list = append(h.jit.list, &jitDump{p, d, dump.Codes})
	h.jit.next = 0
}

// clockMonotonic is CLOCK_MONOTONIC of linux/time.h.
const clockMonotonic = 1

// monotonic reports whether samples have the times of dumps.
func (h *History) monotonic() bool {
	return len(h.file.Attrs) > 0 && h.file.Attrs[0].Flags&format.FlagUseClockID != 0 && h.file.Attrs[0].ClockID == clockMonotonic
}

// jitUntil maps the code generated until that time.
func (h *History) jitUntil(time uint64) {
	if len(h.jit.list) == 0 || time < h.jit.next {
		return
	}
	h.jit.next = math.MaxUint64
	for _, d := range h.jit.list {
		for len(d.codes) > 0 && d.codes[0].Time <= time {
			c := &d.codes[0]
			d.codes = d.codes[1:]
			sym := &symbolize.Symbol{Start: c.Start, End: c.End, Name: c.Name, Raw: c.Name}
			d.space.maps = d.space.with(&Map{Start: c.Start, End: c.End, Pgoff: c.Start, DSO: d.dso, symbol: sym, code: c})
		}
		if len(d.codes) > 0 {
			h.jit.next = min(h.jit.next, d.codes[0].Time)
		}
	}
}

// JITLine returns the source line of a frame in code of a JIT or a BPF program, or
// "" and 0 if unknown.
func (f *Frame) JITLine() (file string, line int) {
	if f.Map == nil || f.Map.code == nil {
		return "", 0
	}
	return f.Map.code.Line(f.IP)
}

// bpfCode returns the recorded source lines of a BPF program's function, or nil.
func (h *History) bpfCode(sym *symbolize.Symbol) *jit.Code {
	all := h.bpfLines()
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
