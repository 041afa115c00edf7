package main

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestVersion: the version is printed as perf prints its own.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-v"} {
		var out bytes.Buffer
		if code := run([]string{arg}, &out, io.Discard); code != exitOK ||
			!strings.Contains(out.String(), runtime.Version()) {
			t.Errorf("gperf %s: exit code %d, %q", arg, code, out.String())
		}
	}
}

// buildLine is a shell's command that builds gperf.
var buildLine = regexp.MustCompile(`(?:\w+=\S+ )*go build [^\n]*-o gperf \./cmd/gperf`)

// Whichever way gperf is built, it is one static binary without this machine's paths,
// also where Go would use a C compiler.
func TestBuildIsStatic(t *testing.T) {
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Makefile", "testdata/demo.sh", "README.md", ".ci/run"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			if name == "Makefile" {
				if _, err := exec.LookPath("make"); err != nil {
					t.Skip("make is missing (Debian's make): its variables cannot be expanded")
				}
				cmd := exec.Command("make", "-n", "gperf")
				cmd.Dir = root
				if text, err = cmd.Output(); err != nil {
					t.Fatal(err)
				}
			}
			line := buildLine.FindString(string(text))
			if line == "" {
				t.Fatal("no line builds gperf")
			}
			path := filepath.Join(t.TempDir(), "gperf")
			cmd := exec.Command("sh", "-c", strings.Replace(line, "-o gperf", "-buildvcs=false -o "+path, 1))
			cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			image, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file, err := elf.NewFile(bytes.NewReader(image))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range file.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("%s makes a dynamically linked program (%v)", line, p.Type)
				}
			}
			if bytes.Contains(image, []byte(dir+"/cmd/gperf/")) {
				t.Errorf("%s: the program has the path of its source, %s", line, dir)
			}
		})
	}
}
