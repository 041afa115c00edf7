package program

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"gperf/internal/dso"
	"gperf/symbolize/demangle"
	"gperf/symbolize/srcline"
)

// Function is a function of a file of code.
type Function struct {
	Symbol string // from the symbol table, without a version
	Off    uint64 // in the file
	Size   uint64 // in bytes; 0: unknown

	vaddr    uint64
	version  string // "GLIBC_2.14", if the table contains one
	old      bool   // the version is not the default one for linking
	ifunc    bool   // the code at Off is the resolver, not the function
	imported bool   // it is defined in another file
	library  string // that file, if imported and known
}

// Name returns the function's name in the source code: for C++ with the parameters.
func (fn *Function) Name() string {
	if !strings.HasPrefix(fn.Symbol, "_") {
		return fn.Symbol // C's f must not become "float"
	}
	return demangle.Name(fn.Symbol)
}

// spellings returns the names that a spec can use for the function.
func (fn *Function) spellings() []string {
	l := []string{fn.Symbol}
	if name := fn.Name(); name != fn.Symbol {
		l = append(l, name, WithoutParameters(name))
	}
	if i, j := strings.IndexByte(fn.Symbol, '['), strings.LastIndexByte(fn.Symbol, ']'); i > 0 && j > i {
		l = append(l, fn.Symbol[:i]+"[...]"+fn.Symbol[j+1:]) // Go's stacks print generics like this
	}
	if fn.version != "" {
		l = append(l, fn.Symbol+"@"+fn.version)
	}
	return l
}

func (fn *Function) called(match func(string) bool) bool {
	return slices.ContainsFunc(fn.spellings(), match)
}

// File is a file of code in which probes are searched for.
type File struct {
	*dso.Image
	path      string // for the kernel to open
	functions []Function
	goPCs     bool // the functions come from Go's own table
	goVersion func() string
}

// Open opens a file of code that this machine can run.
func Open(path string) (*File, error) {
	im, err := dso.Open(path)
	if err != nil {
		return nil, &FileError{path, err}
	}
	if m := machines[runtime.GOARCH]; !slices.Contains(m, im.Machine) || im.ByteOrder() != binary.LittleEndian {
		im.Close()
		return nil, &FileError{path, fmt.Errorf("it is for %s, this machine is %s",
			strings.TrimPrefix(im.Machine.String(), "EM_"), runtime.GOARCH)}
	}
	f := &File{Image: im, path: path}
	f.goVersion = sync.OnceValue(f.readGoVersion)
	return f, nil
}

var machines = map[string][]elf.Machine{
	"amd64": {elf.EM_X86_64, elf.EM_386},
	"arm64": {elf.EM_AARCH64, elf.EM_ARM},
}

// ReadFunctions reads the symbol tables, or else Go's table of functions. Symbols that the file lacks are read
// from the file's debug information file.
func (f *File) ReadFunctions() error {
	symbols, err := readSymbols(f.path)
	if err != nil {
		return &FileError{f.path, err}
	}
	if !f.HasSymtab() {
		symbols = append(symbols, f.debugSymbols()...)
	}
	for _, s := range symbols {
		f.add(s)
	}
	if f.isGo() && !slices.ContainsFunc(f.functions, func(fn Function) bool { return fn.Symbol == "runtime.main" }) {
		f.goPCs = true
		f.functions = append(f.functions, f.goFunctions()...)
	}
	slices.SortStableFunc(f.functions, func(a, b Function) int {
		return cmp.Or(compare(&a, &b), cmp.Compare(a.Symbol, b.Symbol))
	})
	f.functions = slices.CompactFunc(f.functions, func(a, b Function) bool {
		return a.Off == b.Off && a.Symbol == b.Symbol && a.imported == b.imported
	})
	return nil
}

// debugSymbols returns the symbols of this file's debug information file, if there is one.
func (f *File) debugSymbols() (l []elf.Symbol) {
	for im, err := range new(dso.Locator).Candidates(f.path, f.BuildID()) {
		has := err == nil && im.HasSymtab()
		im.Close()
		if has {
			l, _ = readSymbols(im.Path) // on an error, the file's own remain
			return l
		}
	}
	return nil
}

// readSymbols reads .symtab and .dynsym with debug/elf, which may panic on hostile files.
func readSymbols(path string) (l []elf.Symbol, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged symbols: %v", p)
		}
	}()
	e, err := dso.OpenELF(path)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	l, _ = e.Symbols() // a missing table is not an error
	dynamic, _ := e.DynamicSymbols()
	return append(dynamic, l...), nil
}

// add adds a symbol if it is a function.
func (f *File) add(s elf.Symbol) {
	typ := elf.ST_TYPE(s.Info)
	if s.Name == "" || typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC && typ != elf.STT_NOTYPE {
		return
	}
	name, version, versioned := strings.Cut(s.Name, "@")
	if name == "" {
		return
	}
	fn := Function{Symbol: name, Size: s.Size, vaddr: s.Value, ifunc: typ == elf.STT_GNU_IFUNC}
	switch {
	case versioned: // in .symtab: "memcpy@GLIBC_2.2.5", "memcpy@@GLIBC_2.14"
		fn.old = !strings.HasPrefix(version, "@")
		fn.version = strings.TrimPrefix(version, "@")
	case s.HasVersion:
		fn.version, fn.old = s.Version, s.VersionIndex.IsHidden()
	}
	if s.Section == elf.SHN_UNDEF {
		fn.imported, fn.library = true, s.Library
		f.functions = append(f.functions, fn)
		return
	}
	if f.Machine == elf.EM_ARM {
		fn.vaddr &^= 1
	}
	off, ok := f.code(fn.vaddr)
	if !ok || typ == elf.STT_NOTYPE && (elf.ST_VISIBILITY(s.Other) != elf.STV_DEFAULT || strings.HasPrefix(name, "$")) {
		return
	}
	fn.Off = off
	f.functions = append(f.functions, fn)
}

// code converts a vaddr to an offset in the file; ok is false if there is no code. Linkers
// may load headers and data together with code, so it checks sections, if there are any.
func (f *File) code(vaddr uint64) (off uint64, ok bool) {
	if sections := f.Sections; len(sections) > 0 && !slices.ContainsFunc(sections, func(s *elf.Section) bool {
		return s.Flags&elf.SHF_EXECINSTR != 0 && vaddr >= s.Addr && vaddr-s.Addr < s.Size
	}) {
		return 0, false
	}
	for _, l := range f.Loads {
		if l.Flags&elf.PF_X != 0 && vaddr >= l.Vaddr && vaddr-l.Vaddr < l.Filesz {
			return vaddr - l.Vaddr + l.Off, true
		}
	}
	return 0, false
}

func (f *File) isGo() bool { return f.GoTable() != nil }

// goFunctions returns the functions of a Go program without symbols, from the program's table for stack traces.
func (f *File) goFunctions() (l []Function) {
	list, _ := srcline.GoFunctions(f.Image)
	for _, fn := range list {
		if off, ok := f.code(fn.Vaddr); ok {
			l = append(l, Function{Symbol: fn.Name, Off: off, Size: fn.Size, vaddr: fn.Vaddr})
		}
	}
	return l
}

// match returns the functions of a query, one for each offset, and the functions of that name that are imported
// from other files.
func (s *search) match() (found, imported []*Function, err error) {
	name := strings.TrimSuffix(s.Name, "@plt")
	exact := func(spelling string) bool { return spelling == name }
	found, imported = s.file.called(exact, strings.Contains(name, "@"))
	if len(found)+len(imported) > 0 || s.Literal || !strings.ContainsAny(name, "*?[") {
		return found, imported, nil
	}
	glob, err := globExpr(name)
	if err != nil {
		return nil, nil, s.bad(err.Error())
	}
	found, _ = s.file.called(glob.MatchString, strings.Contains(name, "@"))
	// The split-off parts of functions that run rarely are not functions.
	found = slices.DeleteFunc(found, func(fn *Function) bool {
		return strings.HasSuffix(fn.Symbol, ".cold") || strings.Contains(fn.Symbol, ".cold.")
	})
	return found, nil, nil
}

// called returns the functions with a matching name.
func (f *File) called(match func(string) bool, versions bool) (found, imported []*Function) {
	for i := range f.functions {
		switch fn := &f.functions[i]; {
		case !fn.called(match):
		case fn.imported:
			imported = append(imported, fn)
		default:
			found = append(found, fn)
		}
	}
	// An old version matches only if the spec names versions, or if there is no other.
	now := map[string]bool{}
	for _, fn := range found {
		now[fn.Symbol] = now[fn.Symbol] || !fn.old
	}
	found = slices.DeleteFunc(found, func(fn *Function) bool {
		return fn.old && now[fn.Symbol] && !versions
	})
	slices.SortStableFunc(found, compare)
	found = slices.CompactFunc(found, func(a, b *Function) bool { return a.Off == b.Off })
	return found, imported
}

// compare orders functions by offset; at one offset the plainest name is first.
func compare(a, b *Function) int {
	return cmp.Or(cmp.Compare(a.Off, b.Off),
		cmp.Compare(demangle.Underscores(a.Symbol), demangle.Underscores(b.Symbol)))
}

var globWord = regexp.MustCompile(`^\[\^?[\w-]+\]`)

// globExpr makes a regular expression of a glob: *, ?, and sets of letters such as [a-z]. The
// star of Go's (*T) and other brackets, as in Go's generics, match themselves.
func globExpr(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(glob); i++ {
		set := globWord.FindString(glob[i:])
		switch c := glob[i]; {
		case c == '*' && i > 0 && glob[i-1] == '(':
			b.WriteString(`\*`)
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case set != "":
			b.WriteString(set)
			i += len(set) - 1
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	b.WriteString("$")
	return regexp.Compile(b.String())
}
