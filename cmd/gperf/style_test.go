package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxColumns = 120
	tabColumns = 4
)

// TestHouseLines: no line of Go code is longer than maxColumns. Exceptions are directives such as go:generate, raw
// strings of several lines and, in tests, lines that begin inside a composite literal: rows of tables.
func TestHouseLines(t *testing.T) {
	for _, path := range tracked(t, "*.go") {
		src := readSource(t, path)
		if bytes.HasPrefix(src, []byte("// Code generated ")) {
			continue
		}
		excepted := literalLines(t, path, src)
		for i, line := range strings.Split(string(src), "\n") {
			if n := columns(line); n > maxColumns && !excepted[i+1] && !strings.HasPrefix(line, "//go:") {
				t.Errorf("%s:%d: %d columns; the limit is %d", path, i+1, n, maxColumns)
			}
		}
	}
}

func columns(line string) (n int) {
	for _, r := range line {
		if r == '\t' {
			n += tabColumns - n%tabColumns
		} else {
			n++
		}
	}
	return n
}

// literalLines returns the lines of raw strings and, in tests, those that begin inside a composite literal.
func literalLines(t *testing.T, path string, src []byte) map[int]bool {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		first, last := fset.Position(n.Pos()).Line, fset.Position(n.End()).Line
		switch n.(type) {
		case *ast.BasicLit:
			covered[first] = covered[first] || last > first
		case *ast.CompositeLit:
			if !strings.HasSuffix(path, "_test.go") {
				return true
			}
		default:
			return true
		}
		for l := first + 1; l <= last; l++ {
			covered[l] = true
		}
		return true
	})
	return covered
}

// avoided matches words with a plainer alternative.
var avoided = regexp.MustCompile(`(?i)\b(tell|tells|told|whoever|lest|anew|amiss|behind)\b`)

const maxAvoided = 20 // lines, of which some contain names or output of other programs

// TestHouseWords: comments, messages and documents use plain words.
func TestHouseWords(t *testing.T) {
	var lines []string
	for _, path := range tracked(t, "*.go", "*.c", "*.h", "*.sh", "*.md", ".ci/run", "testdata/kernels") {
		for _, line := range strings.Split(string(readSource(t, path)), "\n") {
			if avoided.MatchString(line) {
				lines = append(lines, path+": "+strings.TrimSpace(line))
			}
		}
	}
	if len(lines) >= maxAvoided {
		t.Errorf("%d lines match %s; the limit is %d:\n%s", len(lines), avoided, maxAvoided, strings.Join(lines, "\n"))
	}
}

// tracked returns the files of the repository that match git's patterns.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"-c", "safe.directory=*", "ls-files", "-z", "--"}, patterns...)
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func readSource(t *testing.T, path string) []byte {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return src
}
