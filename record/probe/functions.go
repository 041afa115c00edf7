package probe

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"gperf/symbolize"
	"gperf/symbolize/dso"
)

// Function is a function of a file of code.
type Function struct {
	Symbol string // as the symbol table has it, without a version
	Off    uint64 // in the file
	Size   uint64 // in bytes; 0: not known

	vaddr    uint64
	version  string // "GLIBC_2.14", where the table has one
	old      bool   // the version is not what programs are linked with today
	ifunc    bool   // what is there chooses the function, and is not it
	imported bool   // it is in another file
	library  string // which, if imported and known
}

// Name is what its source calls it: of C++ with its parameters.
func (fn *Function) Name() string {
	if !strings.HasPrefix(fn.Symbol, "_") {
		return fn.Symbol // C's f is no "float"
	}
	return symbolize.Demangle(fn.Symbol)
}

// spellings are the names by which the function can be asked for.
func (fn *Function) spellings() []string {
	l := []string{fn.Symbol}
	if name := fn.Name(); name != fn.Symbol {
		l = append(l, name, withoutParameters(name))
	}
	if i, j := strings.IndexByte(fn.Symbol, '['), strings.LastIndexByte(fn.Symbol, ']'); i > 0 && j > i {
		l = append(l, fn.Symbol[:i]+"[...]"+fn.Symbol[j+1:]) // as Go's stacks show generics
	}
	if fn.version != "" {
		l = append(l, fn.Symbol+"@"+fn.version)
	}
	return l
}

func (fn *Function) called(match func(string) bool) bool {
	return slices.ContainsFunc(fn.spellings(), match)
}

// file is a file of code in which probes are looked for.
type file struct {
	*dso.Image
	path      string // as the kernel is to open it
	functions []Function
	goPCs     bool // the functions are those of Go's own table
}

// openFile opens a file of code that this machine runs.
func openFile(path string) (*file, error) {
	im, err := dso.Open(path)
	if err != nil {
		return nil, &FileError{path, err}
	}
	if m := machines[runtime.GOARCH]; !slices.Contains(m, im.Machine) || im.ByteOrder() != binary.LittleEndian {
		im.Close()
		return nil, &FileError{path, fmt.Errorf("it is made for %s, this machine is %s", strings.TrimPrefix(im.Machine.String(), "EM_"), runtime.GOARCH)}
	}
	return &file{Image: im, path: path}, nil
}

// open opens the file of code that name means: of several, the first.
func (f *Finder) open(name string) (*file, error) {
	paths, err := f.files(name)
	if err != nil {
		return nil, err
	}
	return openFile(paths[0])
}

var machines = map[string][]elf.Machine{
	"amd64": {elf.EM_X86_64, elf.EM_386},
	"arm64": {elf.EM_AARCH64, elf.EM_ARM},
}

// Functions returns the functions that can be probed in the file of code that
// name means (a path, or a program's or library's name alone), by their place in
// the file. Several may be at one place.
func (f *Finder) Functions(name string) ([]Function, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.readFunctions(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(file.functions, func(fn Function) bool { return fn.imported }), nil
}

// readFunctions reads the symbol tables, or else Go's table of functions. The
// symbols that the file lacks may be in one of debug information.
func (f *file) readFunctions() error {
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
	slices.SortStableFunc(f.functions, func(a, b Function) int { return cmp.Or(compare(&a, &b), cmp.Compare(a.Symbol, b.Symbol)) })
	f.functions = slices.CompactFunc(f.functions, func(a, b Function) bool {
		return a.Off == b.Off && a.Symbol == b.Symbol && a.imported == b.imported
	})
	return nil
}

// debugSymbols are those of the file with debug information of this one, if there is one.
func (f *file) debugSymbols() (l []elf.Symbol) {
	for im, err := range new(dso.Finder).Candidates(f.path, f.BuildID()) {
		has := err == nil && im.HasSymtab()
		im.Close()
		if has {
			l, _ = readSymbols(im.Path) // without them there are the file's own
			return l
		}
	}
	return nil
}

// readSymbols reads .symtab and .dynsym with debug/elf, which is not proof
// against every hostile file.
func readSymbols(path string) (l []elf.Symbol, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged symbols: %v", p)
		}
	}()
	e, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	l, _ = e.Symbols() // none is no error
	dynamic, _ := e.DynamicSymbols()
	return append(dynamic, l...), nil
}

// add takes what is a function among symbols.
func (f *file) add(s elf.Symbol) {
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

// code turns a vaddr into the offset in the file; ok is false where no code is.
// Linkers may load headers and data with the code, so that sections tell, where there are any.
func (f *file) code(vaddr uint64) (off uint64, ok bool) {
	if sections := f.Sections(); len(sections) > 0 && !slices.ContainsFunc(sections, func(s *elf.Section) bool {
		return s.Flags&elf.SHF_EXECINSTR != 0 && vaddr >= s.Addr && vaddr-s.Addr < s.Size
	}) {
		return 0, false
	}
	for _, l := range f.Loads() {
		if l.Flags&elf.PF_X != 0 && vaddr >= l.Vaddr && vaddr-l.Vaddr < l.Filesz {
			return vaddr - l.Vaddr + l.Off, true
		}
	}
	return 0, false
}

// goTable is the section of a Go program's table of functions, nil in others.
func (f *file) goTable() *elf.Section {
	for _, name := range [...]string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if s := f.Section(name); s != nil {
			return s
		}
	}
	return nil
}

func (f *file) isGo() bool { return f.goTable() != nil }

// goFunctions reads the functions of a Go program without symbols from the table
// that its own runtime uses.
func (f *file) goFunctions() (l []Function) {
	defer func() {
		if recover() != nil { // debug/gosym is not proof against every file
			l = nil
		}
	}()
	b, err := f.Data(f.goTable())
	text := f.Section(".text")
	if err != nil || text == nil {
		return nil
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(b, text.Addr))
	if err != nil {
		return nil
	}
	code, err := f.Data(text)
	if err != nil {
		return nil
	}
	begin, ok := goText(code, table.Funcs, text.Addr)
	if !ok {
		return nil
	}
	for _, fn := range table.Funcs {
		if off, ok := f.code(fn.Entry + begin); ok && fn.Name != "" {
			l = append(l, Function{Symbol: fn.Name, Off: off, Size: fn.End - fn.Entry, vaddr: fn.Entry + begin})
		}
	}
	return l
}

// goText returns how far into .text Go's code begins, from where its table
// counts: C's comes first where it is linked in, and Go 1.26 does not write any
// more where that ends. Many of Go's functions begin by comparing the stack with
// its limit; those of C that Go itself links in (the race detector's) do not.
func goText(code []byte, functions []gosym.Func, text uint64) (begin uint64, ok bool) {
	const (
		sample = 256
		align  = 16
	)
	functions = spread(functions, sample)
	most := len(functions) / 16 // fewer are chance
	for at := uint64(0); at < uint64(len(code)); at += align {
		checks := 0
		for i, fn := range functions {
			if entry := fn.Entry - text + at; entry < uint64(len(code)) && checksStack(code[entry:]) {
				checks++
			}
			if i == sample/4 && checks == 0 {
				break
			}
		}
		if checks > most {
			begin, most, ok = at, checks, true
		}
	}
	return begin, ok
}

// spread returns n of the functions, from all over the program and in no order of
// their places.
func spread(functions []gosym.Func, n int) (l []gosym.Func) {
	const step = 7919 // a prime
	for i := range min(n, len(functions)) {
		l = append(l, functions[i*step%len(functions)])
	}
	return l
}

// checksStack tells whether code begins as Go's functions do whose frames are
// small: cmp 16(%r14), %rsp, or ldr x16, [x28, #16].
func checksStack(code []byte) bool {
	return bytes.HasPrefix(code, []byte{0x49, 0x3b, 0x66, 0x10}) || bytes.HasPrefix(code, []byte{0x90, 0x0b, 0x40, 0xf9})
}

// match returns the functions that a spec means, one for each place, and those
// of that name that other files have.
func (f *file) match(s *spec) (found, imported []*Function, err error) {
	name := strings.TrimSuffix(s.name, "@plt")
	exact := func(spelling string) bool { return spelling == name }
	found, imported = f.called(exact, strings.Contains(name, "@"))
	if len(found)+len(imported) > 0 || s.literal || !strings.ContainsAny(name, "*?[") {
		return found, imported, nil
	}
	glob, err := globExpr(name)
	if err != nil {
		return nil, nil, s.bad(err.Error())
	}
	found, _ = f.called(glob.MatchString, strings.Contains(name, "@"))
	// The parts of functions that are seldom run are no functions.
	found = slices.DeleteFunc(found, func(fn *Function) bool {
		return strings.HasSuffix(fn.Symbol, ".cold") || strings.Contains(fn.Symbol, ".cold.")
	})
	return found, nil, nil
}

// called returns the functions with such a name.
func (f *file) called(match func(string) bool, versions bool) (found, imported []*Function) {
	for i := range f.functions {
		switch fn := &f.functions[i]; {
		case !fn.called(match):
		case fn.imported:
			imported = append(imported, fn)
		default:
			found = append(found, fn)
		}
	}
	// An old version is meant only if versions are named, or if there is no other.
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

// compare orders functions by their place; of one place the plainest name is the first.
func compare(a, b *Function) int {
	return cmp.Or(cmp.Compare(a.Off, b.Off), cmp.Compare(underscores(a.Symbol), underscores(b.Symbol)))
}

func underscores(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }

var globWord = regexp.MustCompile(`^\[\^?[\w-]+\]`)

// globExpr makes a regular expression of a glob: *, ?, and sets of letters such
// as [a-z]. The star of Go's (*T) is itself, and so are other brackets, which
// Go's generics have.
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
