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
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"},
			{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a commit", debug.BuildInfo{GoVersion: "go1.26.1", Settings: settings("false")},
			"gperf version 0.1-devel-0123456789ab\ncommit: " + revision + "\nbuilt with: go1.26.1 linux/amd64\n"},
		{"changed since", debug.BuildInfo{GoVersion: "go1.26.1", Settings: settings("true")},
			"gperf version 0.1-devel-0123456789ab\ncommit: " + revision + ", modified\nbuilt with: go1.26.1 linux/amd64\n"},
		{"a release", debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "v1.2.3"}, Settings: settings("false")},
			"gperf version v1.2.3\ncommit: " + revision + "\nbuilt with: go1.26.1 linux/amd64\n"},
		{"-buildvcs=false", debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "(devel)"}},
			"gperf version 0.1-devel\ncommit: unknown (built without version control)\nbuilt with: go1.26.1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describeBuild(&c.info); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	deps := debug.BuildInfo{Deps: []*debug.Module{{Path: "github.com/klauspost/compress", Version: "v1.2.3"}}}
	want := "features:\n  zstd          compress and read compressed recordings (github.com/klauspost/compress " +
		"v1.2.3)\n"
	if got := describeFeatures(&deps); got != want {
		t.Errorf("%q, want %q", got, want)
	}
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
