package main

import (
	"os"
	"path/filepath"
	"testing"
)

// gperf resolves kernel addresses with the kallsyms that perf record --kcore wrote, unless a flag names another file.
func TestKcoreDirectory(t *testing.T) {
	dir := t.TempDir()
	symbols := filepath.Join(root, "testdata", "kallsyms")
	if err := os.Mkdir(filepath.Join(dir, "kcore_dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{symbols: "kcore_dir/kallsyms",
		filepath.Join(root, "testdata", "drops.data"): "data"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, to), string(b))
	}
	args := []string{"script", "-F", "ip,sym,symoff", "-i"}
	want, _ := gperf(t, append(args, filepath.Join(dir, "data"), "--kallsyms", symbols)...)
	got, _ := gperf(t, append(args, dir)...)
	sameText(t, "script", got, want)
	empty := filepath.Join(t.TempDir(), "kallsyms")
	writeFile(t, empty, "")
	if other, _ := gperf(t, append(args, dir, "--kallsyms", empty)...); other == want {
		t.Error("--kallsyms does not change anything")
	}
}
