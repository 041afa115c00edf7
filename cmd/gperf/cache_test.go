package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// gperf cache prints the size of the cache; --clear removes no other files.
func TestCacheCommand(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	table := filepath.Join(home, "gperf/unwind/0123.table")
	other := filepath.Join(home, "gperf/unwind/README")
	if err := os.MkdirAll(filepath.Dir(table), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{table, other} {
		if err := os.WriteFile(name, make([]byte, 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"cache", `^unwind tables\s+1 files\s+1\.0 MB of at most 1024  .*/gperf/unwind\nsource lines\s+0 files\s+0\.0 MB .*/gperf/srcline\n$`},
		{"cache --clear", `^unwind tables\s+0 files\s+0\.0 MB`},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(strings.Fields(c.args), &stdout, &stderr); code != exitOK ||
				!regexp.MustCompile(c.want).MatchString(stdout.String()) {
				t.Errorf("%s: exit code %d, %q, stderr %q", c.args, code, &stdout, &stderr)
			}
		})
	}
	if _, err := os.Stat(table); err == nil {
		t.Error("the table is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
