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
	files := map[string][]string{} // by the command that they build gperf with
	for _, name := range []string{"Makefile", "testdata/demo.sh", "README.md", ".ci/run"} {
		line := buildLine.FindString(textWithBuild(t, name))
		if line == "" {
			t.Errorf("no line of %s builds gperf", name)
		}
		line = strings.Replace(line, "-buildvcs=false ", "", 1) // a test adds it
		files[line] = append(files[line], name)
	}
	for line, names := range files {
		t.Run(strings.Join(names, ","), func(t *testing.T) { checkStatic(t, line) })
	}
}

// textWithBuild returns a file that has a command which builds gperf; of the Makefile, the commands that make would
// run.
func textWithBuild(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if name != "Makefile" {
		return string(text)
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is missing (Debian's make): its variables cannot be expanded")
	}
	cmd := exec.Command("make", "-n", "gperf")
	cmd.Dir = root
	if text, err = cmd.Output(); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkStatic runs a command that builds gperf, and looks at the program.
func checkStatic(t *testing.T, line string) {
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
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
}
