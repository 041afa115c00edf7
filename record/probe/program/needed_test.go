package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pathLine matches the path of a library or of the interpreter in ldd's output.
var pathLine = regexp.MustCompile(`(?m)^\t(?:.* => )?(/\S+) \(`)

// TestNeeded compares the files of a program, and of a script for it, with ldd's.
func TestNeeded(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command("ldd", bash).Output()
	if err != nil {
		t.Skipf("ldd: %v", err)
	}
	real := func(path string) string {
		p, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	want := []string{real(bash)}
	for _, m := range pathLine.FindAllStringSubmatch(string(out), -1) {
		want = append(want, real(m[1]))
	}
	slices.Sort(want)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#! "+bash+" -e\ntrue\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Dir(bash))
	for _, path := range []string{bash, "./" + filepath.Base(bash), script} {
		got := Needed(path)
		slices.Sort(got)
		if !slices.Equal(got, want) || len(got) < 3 {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	got := neededWith(nil, bash)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("without the linker's cache: %q, want %q", got, want)
	}
	if got := Needed("/no/such/file"); len(got) != 0 {
		t.Errorf("a missing file needs %q", got)
	}
}

// TestNeededPaths finds libraries in the directories that the program and the environment name.
func TestNeededPaths(t *testing.T) {
	dir := t.TempDir()
	build := func(out, src string, flags ...string) {
		t.Helper()
		c := exec.Command("gcc", append([]string{"-o", out, "-x", "c", "-", "-x", "none"}, flags...)...)
		c.Dir, c.Stdin = dir, strings.NewReader(src)
		if msg, err := c.CombinedOutput(); err != nil {
			t.Skipf("%v: %v\n%s", c, err, msg)
		}
	}
	for _, sub := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		build(sub+"/liblost.so", "int lost(void) { return 1; }", "-shared", "-fPIC")
	}
	const src = "int lost(void); int main(void) { return lost(); }"
	build("with", src, "-La", "-llost", "-Wl,-rpath,$ORIGIN/a")
	build("without", src, "-La", "-llost")
	uses := func(program, sub string) bool {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, sub, "liblost.so"))
		return err == nil && slices.Contains(Needed(filepath.Join(dir, program)), real)
	}
	if !uses("with", "a") || uses("without", "a") || uses("without", "b") {
		t.Error("the library is not the one that the run path names")
	}
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(dir, "b"))
	if !uses("with", "b") || !uses("without", "b") || uses("with", "a") {
		t.Error("the library is not the one in $LD_LIBRARY_PATH")
	}
}
