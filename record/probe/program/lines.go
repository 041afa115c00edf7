package program

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"math"
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

// anySize is no limit of DWARF.
const anySize = math.MaxInt

// debugInfo reads the DWARF of the file, or of the separate debug information file; nil if there is none, or more than
// limit bytes.
func (f *File) debugInfo(limit uint64) (info *debugInfo) {
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
	if s := e.Section(".debug_info"); s != nil && s.Size > limit {
		return nil
	}
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
	info := s.file.debugInfo(anySize)
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

// inlined describes where DWARF says that a function was inlined; "" if it does not.
func (d *debugInfo) inlined(name string) string {
	if i := strings.LastIndex(WithoutParameters(name), "::"); i >= 0 {
		name = WithoutParameters(name)[i+2:]
	}
	calls, known := d.inlinedCalls(func(of, _ string) bool { return of == name })
	switch {
	case !known:
		return ""
	case len(calls) == 0:
		return "optimized out: no code was generated (never called)"
	}
	return "inlined everywhere: probe an inlined call, such as " + d.places(calls)
}

// maxScanned limits the DWARF that gperf searches for the inlined calls of functions that exist, in bytes: 128 MB take
// some seconds.
const maxScanned = 128 << 20

// inlinedCalls returns the number of inlined calls of the functions with these symbols, and the places of the first.
func (f *File) inlinedCalls(symbols map[string]bool) (n int, places string) {
	defer func() {
		if recover() != nil { // debug/dwarf may panic on damaged files
			n = 0
		}
	}()
	d := f.debugInfo(maxScanned)
	if d == nil || len(symbols) == 0 {
		return 0, ""
	}
	calls, _ := d.inlinedCalls(func(name, symbol string) bool { return symbols[cmp.Or(symbol, name)] })
	return len(calls), d.places(calls)
}

// inlinedCall is a place where the compiler put the code of a function instead of a call.
type inlinedCall struct {
	entry, unit *dwarf.Entry
	off         uint64 // in the file
}

// inlinedCalls returns the inlined calls of the functions whose name in the source code, and symbol, match. The symbol
// is "" in DWARF of C and Go. known reports whether DWARF has such a function.
func (d *debugInfo) inlinedCalls(match func(name, symbol string) bool) (calls []inlinedCall, known bool) {
	origins := map[dwarf.Offset]bool{}
	entries(d.data, func(e, _ *dwarf.Entry) {
		if e.Tag == dwarf.TagSubprogram && e.Val(dwarf.AttrInline) != nil && match(d.names(e)) {
			origins[e.Offset] = true
		}
	})
	if len(origins) == 0 {
		return nil, false
	}
	seen := map[uint64]bool{}
	entries(d.data, func(e, unit *dwarf.Entry) {
		origin, _ := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if e.Tag != dwarf.TagInlinedSubroutine || !origins[origin] {
			return
		}
		ranges, err := d.data.Ranges(e)
		if err != nil || len(ranges) == 0 {
			return
		}
		if off, ok := d.file.code(ranges[0][0]); ok && !seen[off] {
			seen[off] = true
			calls = append(calls, inlinedCall{e, unit, off})
		}
	})
	return calls, true
}

// names returns a function's name in the source code and the symbol. For a method these are in the declaration.
func (d *debugInfo) names(e *dwarf.Entry) (name, symbol string) {
	name, _ = e.Val(dwarf.AttrName).(string)
	symbol, _ = e.Val(dwarf.AttrLinkageName).(string)
	at, ok := e.Val(dwarf.AttrSpecification).(dwarf.Offset)
	if !ok {
		return name, symbol
	}
	r := d.data.Reader()
	r.Seek(at)
	declaration, err := r.Next()
	if err != nil || declaration == nil {
		return name, symbol
	}
	declared, _ := declaration.Val(dwarf.AttrName).(string)
	linkage, _ := declaration.Val(dwarf.AttrLinkageName).(string)
	return cmp.Or(name, declared), cmp.Or(symbol, linkage)
}

// entries calls do with each entry of DWARF, and the entry's unit.
func entries(d *dwarf.Data, do func(e, unit *dwarf.Entry)) {
	var unit *dwarf.Entry
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			return
		}
		if e.Tag == dwarf.TagCompileUnit {
			unit = e
		}
		do(e, unit)
	}
}

// maxPlaces is the maximum number of places in a message.
const maxPlaces = 3

// places locates the first inlined calls: "main+0x1c (hello.c:12), main+0x40 (hello.c:14) and 5 more".
func (d *debugInfo) places(calls []inlinedCall) string {
	var l []string
	for _, call := range calls[:min(len(calls), maxPlaces)] {
		l = append(l, d.place(call))
	}
	s := strings.Join(l, ", ")
	if more := len(calls) - maxPlaces; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// place locates an inlined call.
func (d *debugInfo) place(call inlinedCall) string {
	where := fmt.Sprintf("offset %#x", call.off)
	if fn := d.file.At(call.off); fn != nil {
		where = fmt.Sprintf("%s+%#x", fn.Name(), call.off-fn.Off)
	}
	if call.unit == nil {
		return where
	}
	lines, _ := d.data.LineReader(call.unit)
	index, _ := call.entry.Val(dwarf.AttrCallFile).(int64)
	line, _ := call.entry.Val(dwarf.AttrCallLine).(int64)
	if lines != nil && index > 0 && index < int64(len(lines.Files())) && lines.Files()[index] != nil {
		where += fmt.Sprintf(" (%s:%d)", filepath.Base(lines.Files()[index].Name), line)
	}
	return where
}
