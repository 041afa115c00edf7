package program

import (
	"debug/dwarf"
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/untrusted"
	"gperf/record/probe/args"
)

// Listing holds lines of a source file, with those that can be probed.
type Listing struct {
	Function string // "" for lines of a file
	Path     string
	Base     int     // the function's first line, which relative lines count from; 0 for a file
	Start    int     // first line, in the file
	End      int     // last line, 0: the line after the last one with code
	Code     []int   // lines with code, in order
	Owner    *uint32 // of the program, if the program's own file contains the lines and no link leads to it
}

// listed is FUNC[@SRC][:RLN[+NUM|-RLN2]] or SRC[:ALN[+NUM|-ALN2]].
var listed = regexp.MustCompile(`^([^:@]+)(?:@([^:]+))?(?::(\d+)(?:([+-])(\d+))?)?$`)

// List returns the lines of a definition of perf probe --line in a file of code. The error is an
// *args.SpecError if the definition is wrong, an *args.NoDebugError without DWARF.
func (l *Locator) List(def, name string) (*Listing, error) {
	bad := func(msg string) error { return &args.SpecError{Spec: def, Msg: msg} }
	m := listed.FindStringSubmatch(def)
	if m == nil {
		return nil, bad("expected FUNC[@SRC][:LINE[+NUM|-LINE]] or SRC[:LINE[+NUM|-LINE]]")
	}
	list := &Listing{Function: m[1], Path: m[2]}
	if m[2] == "" && strings.ContainsAny(m[1], "/.") {
		list.Function, list.Path = "", m[1]
	}
	list.Start, _ = strconv.Atoi(m[3])
	n, _ := strconv.Atoi(m[5])
	switch m[4] {
	case "+":
		list.End = list.Start + n - 1
	case "-":
		if list.End = n; n < list.Start {
			return nil, bad("its last line comes before the first")
		}
	}
	file, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info := file.debugInfo(anySize)
	if info == nil {
		return nil, &args.NoDebugError{File: file.path, Lack: "DWARF"}
	}
	if list.find(info.data); len(list.Code) == 0 {
		return nil, bad("these lines have no code")
	}
	list.Owner = file.owner()
	return list, nil
}

// owner returns the owner of a file that contains the debug information itself.
func (f *File) owner() *uint32 {
	path, err := filepath.Abs(f.path)
	if err != nil || !f.HasDWARF() {
		return nil
	}
	file, err := untrusted.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	if uid, ok := untrusted.Owner(file, path); ok {
		return &uid
	}
	return nil
}

// find finds the lines with code.
func (l *Listing) find(d *dwarf.Data) {
	code := map[int]bool{}
	units(d, func(unit *dwarf.Entry) bool {
		if l.Function == "" {
			l.ofFile(d, unit, code)
			return true
		}
		return !l.ofFunctions(d, unit, code)
	})
	for n := range code {
		if n >= l.Start && (l.End == 0 || n <= l.End) {
			l.Code = append(l.Code, n)
		}
	}
	slices.Sort(l.Code)
}

// lineAt returns the lines that perf assigns to addresses: a function's first line at its entry, elsewhere the
// line of the first statement there.
func lineAt(d *dwarf.Data, unit *dwarf.Entry) map[uint64]int {
	at := map[uint64]int{}
	rows(d, unit, func(row *dwarf.LineEntry) bool {
		if _, ok := at[row.Address]; !ok && row.IsStmt && !row.EndSequence {
			at[row.Address] = row.Line
		}
		return true
	})
	for e := range below(d, unit) {
		if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok && e.Tag == dwarf.TagSubprogram {
			at[low] = numberOf(e, dwarf.AttrDeclLine)
		}
	}
	return at
}

// ofFile adds the lines of a unit's code in the file.
func (l *Listing) ofFile(d *dwarf.Data, unit *dwarf.Entry, code map[int]bool) {
	path := ""
	at := lineAt(d, unit)
	rows(d, unit, func(row *dwarf.LineEntry) bool {
		if row.File != nil && !row.EndSequence && row.IsStmt && isSource(row.File.Name, l.Path) {
			code[at[row.Address]], path = true, row.File.Name
		}
		return true
	})
	if path != "" {
		l.Path = absolute(path, unit)
	}
}

// absolute returns the absolute path of a unit's source file.
func absolute(path string, unit *dwarf.Entry) string {
	if dir, ok := unit.Val(dwarf.AttrCompDir).(string); ok && !filepath.IsAbs(path) {
		return dir + "/" + path // as perf does for any path
	}
	return path
}

// ofFunctions adds the lines of the unit's functions of that name, including inlined
// instances.
func (l *Listing) ofFunctions(d *dwarf.Data, unit *dwarf.Entry, code map[int]bool) (found bool) {
	var files []*dwarf.LineFile
	if lines, err := d.LineReader(unit); err == nil && lines != nil {
		files = lines.Files()
	}
	at := lineAt(d, unit)
	named := map[dwarf.Offset]*dwarf.Entry{}
	for e := range below(d, unit) {
		if e.Tag == dwarf.TagSubprogram && e.Val(dwarf.AttrName) == l.Function {
			named[e.Offset] = e
		}
	}
	for e := range below(d, unit) {
		fn := named[e.Offset]
		if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok && fn == nil {
			fn = named[origin]
		}
		if fn == nil || e.Tag != dwarf.TagSubprogram && e.Tag != dwarf.TagInlinedSubroutine {
			continue
		}
		file := numberOf(fn, dwarf.AttrDeclFile)
		if file < 0 || file >= len(files) || files[file] == nil || l.Path != "" && !isSource(files[file].Name, l.Path) {
			continue
		}
		if ranges, err := d.Ranges(e); err == nil && len(ranges) > 0 {
			l.declare(absolute(files[file].Name, unit), numberOf(fn, dwarf.AttrDeclLine))
			l.ofFunction(d, unit, e, at, code)
			found = true
		}
	}
	return found
}

// declare sets the function's first line, from which the listing's lines are counted.
func (l *Listing) declare(path string, line int) {
	if l.Base > 0 {
		return
	}
	l.Path, l.Base = path, line
	l.Start += line
	if l.End > 0 {
		l.End += line
	}
}

// ofFunction adds the lines of a function's code, except code inlined into it, which belongs to the line of the
// call.
func (l *Listing) ofFunction(d *dwarf.Data, unit, fn *dwarf.Entry, at map[uint64]int, code map[int]bool) {
	if fn.Tag == dwarf.TagSubprogram {
		code[l.Base] = true
	}
	var inlined [][2]uint64
	calls := map[int]bool{}
	for e := range below(d, fn) {
		if e.Tag == dwarf.TagInlinedSubroutine {
			ranges, _ := d.Ranges(e)
			inlined = append(inlined, ranges...)
			calls[numberOf(e, dwarf.AttrCallLine)] = true
		}
	}
	own, _ := d.Ranges(fn)
	rows(d, unit, func(row *dwarf.LineEntry) bool {
		if row.File != nil && absolute(row.File.Name, unit) == l.Path && row.IsStmt && !row.EndSequence &&
			within(own, row.Address) &&
			at[row.Address] == row.Line && (!within(inlined, row.Address) || calls[row.Line]) {
			code[row.Line] = true
		}
		return true
	})
}

func within(ranges [][2]uint64, addr uint64) bool {
	return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return addr >= r[0] && addr < r[1] })
}

// numberOf returns the value of a numeric attribute, -1 if there is none.
func numberOf(e *dwarf.Entry, attr dwarf.Attr) int {
	if n, ok := e.Val(attr).(int64); ok {
		return int(n)
	}
	return -1
}

// below yields the descendants of an entry.
func below(d *dwarf.Data, top *dwarf.Entry) iter.Seq[*dwarf.Entry] {
	return func(yield func(*dwarf.Entry) bool) {
		r := d.Reader()
		r.Seek(top.Offset)
		if _, err := r.Next(); err != nil || !top.Children {
			return
		}
		for depth := 0; depth >= 0; {
			e, err := r.Next()
			switch {
			case err != nil || e == nil:
				return
			case e.Tag == 0:
				depth--
				continue
			case !yield(e):
				return
			}
			if e.Children {
				depth++
			}
		}
	}
}

// Title returns the line that perf prints before the lines.
func (l *Listing) Title() string {
	if l.Function != "" {
		return fmt.Sprintf("<%s@%s:%d>", l.Function, l.Path, l.Start-l.Base)
	}
	return fmt.Sprintf("<%s:%d>", l.Path, l.Start)
}
