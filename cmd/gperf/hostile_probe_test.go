package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// As root, gperf probe -L of another user's program shows no file that this user cannot read, unless root asks for it.
func TestHostileProbeLines(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others cannot read more than they may show")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is missing")
	}
	dir := t.TempDir()
	secret, source, program := filepath.Join(dir, "secret"), filepath.Join(dir, "a.c"), filepath.Join(dir, "program")
	for path, text := range map[string]string{
		secret: "root:hash\nsecond\n",
		source: "#line 1 \"" + secret + "\"\nint main(void) { return 0; }\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("gcc", "-g", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, c := range []struct {
		owner int
		flags []string
		shown bool
	}{{65534, nil, false}, {65534, []string{"-s", "/"}, true}, {0, nil, true}} {
		if err := os.Chown(program, c.owner, -1); err != nil {
			t.Fatal(err)
		}
		r := runGperf(t, append([]string{"probe", "-x", program, "-L", "main"}, c.flags...)...)
		if shown := strings.Contains(r.stdout, "root:hash"); shown != c.shown || c.shown != (r.code == 0) ||
			!c.shown && !strings.Contains(r.stderr, "--source /") {
			t.Errorf("owner %d, %q: exit code %d\n%s%s", c.owner, c.flags, r.code, r.stdout, r.stderr)
		}
	}
}
