package probe

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gperf/record/probe/vars"
)

// debugInfo reads the file's DWARF, or that of its separate debug information file; nil if
// there is none.
func (f *file) debugInfo() (d *dwarf.Data) {
	defer func() {
		if recover() != nil { // debug/elf may panic on damaged files
			d = nil
		}
	}()
	e, err := vars.OpenDebug(f.Image)
	if err != nil {
		return nil
	}
	defer e.Close()
	if d, err = e.DWARF(); err != nil {
		return nil
	}
	return d
}

// units calls do with each compilation unit, until it returns false.
func units(d *dwarf.Data, do func(*dwarf.Entry) bool) {
	for r := d.Reader(); ; r.SkipChildren() {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit && !do(e) {
			return
		}
	}
}

// rows calls do with each row of a unit's line table, until it returns false.
func rows(d *dwarf.Data, unit *dwarf.Entry, do func(*dwarf.LineEntry) bool) {
	lr, err := d.LineReader(unit)
	if err != nil || lr == nil {
		return
	}
	var row dwarf.LineEntry
	for lr.Next(&row) == nil && do(&row) {
	}
}

// linePlaces returns the first instruction of a source line, in each function that contains
// code of it.
func (f *file) linePlaces(s *spec) ([]place, error) {
	d := f.debugInfo()
	if d == nil {
		return nil, &FileError{f.path, errors.New("it has no debug information (DWARF) with source lines: compile with -g, or install its -dbgsym")}
	}
	first := map[*Function]uint64{}
	lines := map[int]bool{}
	units(d, func(unit *dwarf.Entry) bool {
		rows(d, unit, func(row *dwarf.LineEntry) bool {
			if row.File == nil || row.EndSequence || !isSource(row.File.Name, s.name) {
				return true
			}
			lines[row.Line] = true
			if off, ok := f.code(row.Address); ok && row.Line == s.line && row.IsStmt {
				fn := f.at(off)
				if have, ok := first[fn]; !ok || off < have {
					first[fn] = off
				}
			}
			return true
		})
		return true
	})
	if len(first) == 0 {
		return nil, f.noLine(s, lines)
	}
	var l []place
	for fn, off := range first {
		event := fmt.Sprintf("%s_L%d", word(filepath.Base(s.name)), s.line)
		if fn != nil {
			event = f.eventOf(fn)
		}
		l = append(l, place{event: event, off: off, function: fn})
	}
	slices.SortFunc(l, func(a, b place) int { return cmp.Compare(a.off, b.off) })
	return l, nil
}

// isSource reports whether name matches the end of a source file's path.
func isSource(file, name string) bool { return file == name || strings.HasSuffix(file, "/"+name) }

func (f *file) noLine(s *spec, lines map[int]bool) error {
	next := 0
	for n := range lines {
		if n > s.line && (next == 0 || n < next) {
			next = n
		}
	}
	switch {
	case len(lines) == 0:
		return s.bad(fmt.Sprintf("%s has no code from a source file %s", f.path, s.name))
	case next == 0:
		return s.bad(fmt.Sprintf("neither %s:%d nor a later line has code", s.name, s.line))
	}
	return s.bad(fmt.Sprintf("%s:%d has no code; the next line with code is %s:%d", s.name, s.line, s.name, next))
}

// at returns the function that contains off, nil if none is known.
func (f *file) at(off uint64) *Function {
	for i := range f.functions {
		if fn := &f.functions[i]; !fn.imported && off >= fn.Off && off-fn.Off < fn.Size {
			return fn
		}
	}
	return nil
}

// maxCallers is the maximum number of callers in an error.
const maxCallers = 3

// inlined describes where DWARF says that a function was inlined; "" if it does not.
func (f *file) inlined(name string) string {
	d := f.debugInfo()
	if d == nil {
		return ""
	}
	if i := strings.LastIndex(withoutParameters(name), "::"); i >= 0 {
		name = withoutParameters(name)[i+2:]
	}
	origins := map[dwarf.Offset]bool{}
	entries(d, func(e *dwarf.Entry, _ *dwarf.LineReader) {
		if e.Tag == dwarf.TagSubprogram && e.Val(dwarf.AttrInline) != nil && e.Val(dwarf.AttrName) == name {
			origins[e.Offset] = true
		}
	})
	if len(origins) == 0 {
		return ""
	}
	var callers []string
	entries(d, func(e *dwarf.Entry, lines *dwarf.LineReader) {
		origin, _ := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if e.Tag != dwarf.TagInlinedSubroutine || !origins[origin] {
			return
		}
		if c := f.caller(d, e, lines); c != "" && !slices.Contains(callers, c) {
			callers = append(callers, c)
		}
	})
	if len(callers) == 0 {
		return "optimized out: no code was generated"
	}
	more := ""
	if n := len(callers) - maxCallers; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return "inlined everywhere: probe an inlined call, such as " + strings.Join(callers[:min(len(callers), maxCallers)], ", ") + more
}

// entries calls do with each entry of DWARF, and the lines of its unit.
func entries(d *dwarf.Data, do func(*dwarf.Entry, *dwarf.LineReader)) {
	var lines *dwarf.LineReader
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return
		}
		if e.Tag == dwarf.TagCompileUnit {
			lines, _ = d.LineReader(e)
		}
		do(e, lines)
	}
}

// caller locates an inlined call: "main+0x1c (hello.c:12)".
func (f *file) caller(d *dwarf.Data, e *dwarf.Entry, lines *dwarf.LineReader) string {
	ranges, err := d.Ranges(e)
	if err != nil || len(ranges) == 0 {
		return ""
	}
	off, ok := f.code(ranges[0][0])
	fn := f.at(off)
	if !ok || fn == nil {
		return ""
	}
	where := fmt.Sprintf("%s+%#x", fn.Name(), off-fn.Off)
	index, _ := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	if lines != nil && index > 0 && index < int64(len(lines.Files())) && lines.Files()[index] != nil {
		where += fmt.Sprintf(" (%s:%d)", filepath.Base(lines.Files()[index].Name), line)
	}
	return where
}
