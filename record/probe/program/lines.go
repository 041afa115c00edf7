package program

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gperf/record/probe/args"
)

// debugInfo is the DWARF of a file.
type debugInfo struct {
	file *File
	data *dwarf.Data
}

// debugInfo reads the DWARF of the file, or of the separate debug information file; nil if there is none.
func (f *File) debugInfo() (info *debugInfo) {
	defer func() {
		if recover() != nil { // debug/elf may panic on damaged files
			info = nil
		}
	}()
	e, err := args.OpenDebug(f.Image)
	if err != nil {
		return nil
	}
	defer e.Close()
	d, err := e.DWARF()
	if err != nil {
		return nil
	}
	return &debugInfo{f, d}
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

// lineSites returns the first instruction of a source line, in each function that contains
// code of it.
func (s *search) lineSites() ([]Site, error) {
	info := s.file.debugInfo()
	if info == nil {
		return nil, &FileError{s.file.path, errors.New("it has no debug information (DWARF) with source lines: " +
			"compile with -g, or install its -dbgsym")}
	}
	first, lines := info.line(s.Name, s.Line)
	if len(first) == 0 {
		return nil, s.noLine(lines)
	}
	var l []Site
	for fn, off := range first {
		l = append(l, Site{Off: off, Function: fn})
	}
	slices.SortFunc(l, func(a, b Site) int { return cmp.Compare(a.Off, b.Off) })
	return l, nil
}

// line returns the offset in the file of a source line's first instruction by function, and all lines of the
// source file for which there is code.
func (d *debugInfo) line(source string, line int) (first map[*Function]uint64, lines map[int]bool) {
	first, lines = map[*Function]uint64{}, map[int]bool{}
	units(d.data, func(unit *dwarf.Entry) bool {
		rows(d.data, unit, func(row *dwarf.LineEntry) bool {
			if row.File == nil || row.EndSequence || !isSource(row.File.Name, source) {
				return true
			}
			lines[row.Line] = true
			if off, ok := d.file.code(row.Address); ok && row.Line == line && row.IsStmt {
				fn := d.file.At(off)
				if have, ok := first[fn]; !ok || off < have {
					first[fn] = off
				}
			}
			return true
		})
		return true
	})
	return first, lines
}

// isSource reports whether name matches the end of a source file's path.
func isSource(file, name string) bool { return file == name || strings.HasSuffix(file, "/"+name) }

func (s *search) noLine(lines map[int]bool) error {
	next := 0
	for n := range lines {
		if n > s.Line && (next == 0 || n < next) {
			next = n
		}
	}
	switch {
	case len(lines) == 0:
		return s.bad(fmt.Sprintf("%s has no code from a source file %s", s.file.path, s.Name))
	case next == 0:
		return s.bad(fmt.Sprintf("neither %s:%d nor a later line has code", s.Name, s.Line))
	}
	return s.bad(fmt.Sprintf("%s:%d has no code; the next line with code is %s:%d", s.Name, s.Line, s.Name, next))
}

// At returns the function that contains off, nil if none is known.
func (f *File) At(off uint64) *Function {
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
func (d *debugInfo) inlined(name string) string {
	if i := strings.LastIndex(WithoutParameters(name), "::"); i >= 0 {
		name = WithoutParameters(name)[i+2:]
	}
	origins := map[dwarf.Offset]bool{}
	entries(d.data, func(e *dwarf.Entry, _ *dwarf.LineReader) {
		if e.Tag == dwarf.TagSubprogram && e.Val(dwarf.AttrInline) != nil && e.Val(dwarf.AttrName) == name {
			origins[e.Offset] = true
		}
	})
	if len(origins) == 0 {
		return ""
	}
	var callers []string
	entries(d.data, func(e *dwarf.Entry, lines *dwarf.LineReader) {
		origin, _ := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if e.Tag != dwarf.TagInlinedSubroutine || !origins[origin] {
			return
		}
		if c := d.caller(e, lines); c != "" && !slices.Contains(callers, c) {
			callers = append(callers, c)
		}
	})
	if len(callers) == 0 {
		return "optimized out: no code was generated (never called)"
	}
	more := ""
	if n := len(callers) - maxCallers; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	first := strings.Join(callers[:min(len(callers), maxCallers)], ", ")
	return "inlined everywhere: probe an inlined call, such as " + first + more
}

// entries calls do with each entry of DWARF, and the lines of the entry's unit.
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
func (d *debugInfo) caller(e *dwarf.Entry, lines *dwarf.LineReader) string {
	ranges, err := d.data.Ranges(e)
	if err != nil || len(ranges) == 0 {
		return ""
	}
	off, ok := d.file.code(ranges[0][0])
	fn := d.file.At(off)
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
