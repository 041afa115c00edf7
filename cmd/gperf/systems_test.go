package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// systems are the systems that gperf reads recordings on, besides the one of the release.
var systems = strings.Fields(`linux/386 linux/arm linux/arm64 linux/loong64 linux/ppc64le linux/riscv64 linux/s390x
	darwin/amd64 darwin/arm64 freebsd/amd64 windows/amd64 windows/arm64`)

// TestHouseTypes: gperf has no error of types on any system. To build it for all of them takes minutes, this seconds.
func TestHouseTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	c := checker{fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	for _, system := range systems {
		known := map[string]*types.Package{"unsafe": types.Unsafe}
		for _, p := range listOn(t, system, "-deps", "./cmd/gperf") { // the imports of a package come first
			c.check(t, system, &p, known)
		}
		if known["gperf/cmd/gperf"] == nil {
			t.Errorf("%s: gperf is not checked", system)
		}
	}
}

// checker checks the types of packages by their sources.
type checker struct {
	fset   *token.FileSet
	parsed map[string]*ast.File // by path
}

// check checks a package that imports known ones, and adds it to them. Of other modules it checks only declarations.
func (c *checker) check(t *testing.T, system string, p *listed, known map[string]*types.Package) {
	own := strings.HasPrefix(p.ImportPath, "gperf/")
	var files []*ast.File
	for _, name := range p.GoFiles {
		files = append(files, c.parse(t, filepath.Join(p.Dir, name)))
	}
	_, arch, _ := strings.Cut(system, "/")
	conf := types.Config{
		IgnoreFuncBodies: !own,
		Sizes:            types.SizesFor("gc", arch),
		Importer: importer(func(path string) (*types.Package, error) {
			if vendored, ok := p.ImportMap[path]; ok {
				path = vendored
			}
			if known[path] == nil {
				return nil, fmt.Errorf("%s is not known", path)
			}
			return known[path], nil
		}),
		Error: func(err error) {
			if own {
				t.Errorf("%s: %v", system, err)
			}
		},
	}
	if pkg, _ := conf.Check(p.ImportPath, c.fset, files, nil); p.ImportPath != "unsafe" {
		known[p.ImportPath] = pkg
	}
}

func (c *checker) parse(t *testing.T, path string) *ast.File {
	f := c.parsed[path]
	if f == nil {
		var err error
		if f, err = parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		c.parsed[path] = f
	}
	return f
}

// importer is a types.Importer.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
