package program

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"go/version"

	"gperf/internal/dso"
)

// GoRuntime is where functions of Go's runtime are in a program, as offsets in the file.
type GoRuntime struct {
	Functions []uint64
	Version   string // such as "go1.26.8"
}

// ErrNotGo means that a file is no program of Go.
var ErrNotGo = errors.New("not a program of Go")

// FindGoRuntime finds functions of Go's runtime in a program, which may be stripped. It fails with ErrNotGo for other
// programs.
func FindGoRuntime(path string, functions ...string) (*GoRuntime, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table, err := dso.OpenGoFunctions(f.Image)
	if err != nil {
		return nil, &FileError{path, ErrNotGo}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, &FileError{path, ErrNotGo}
	}
	found := map[string]uint64{}
	for i := range table.Len() {
		if fn, ok := table.Func(i); ok {
			found[fn.Name()] = fn.Entry
		}
	}
	g := &GoRuntime{Version: info.GoVersion}
	for _, name := range functions {
		off, ok := f.code(found[name])
		if !ok {
			return nil, &FileError{path, fmt.Errorf("%s has no function %s", g.Version, name)}
		}
		g.Functions = append(g.Functions, off)
	}
	return g, nil
}

// Since reports whether the program was made by this version of Go, such as "go1.25", or a later one. Development
// versions count as later than all.
func (g *GoRuntime) Since(v string) bool {
	return !version.IsValid(g.Version) || version.Compare(g.Version, v) >= 0
}
