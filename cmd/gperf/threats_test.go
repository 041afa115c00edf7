package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// minAttempts is how many attempts docs/threats.md has at least.
const minAttempts = 60

// TestDocsThreats checks that each attempt in docs/threats.md names a test that exists.
func TestDocsThreats(t *testing.T) {
	_, attempts, _ := strings.Cut(readDoc(t, "docs/threats.md"), "\n## Attempts\n")
	test := regexp.MustCompile("^`([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z0-9]+)`$")
	n := 0
	for line := range strings.Lines(attempts) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "attempt" {
			continue
		}
		n++
		m := test.FindStringSubmatch(strings.TrimSpace(cells[2]))
		if m == nil {
			t.Errorf("no test in %q", line)
		} else if !hasTest(t, m[1], m[2]) {
			t.Errorf("%s has no test %s: %q", m[1], m[2], line)
		}
	}
	if n < minAttempts {
		t.Errorf("docs/threats.md has %d attempts, not %d", n, minAttempts)
	}
	t.Logf("%d attempts", n)
}

// hasTest reports whether the test files of a directory have a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
