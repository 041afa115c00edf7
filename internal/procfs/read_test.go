package procfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "maps")
	for _, n := range []int{0, 1, 1<<15 - 1, 1 << 15, 1<<15 + 1, 100000} {
		want := strings.Repeat("0123456789", n/10+1)[:n]
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readFile(path); err != nil || got != want {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
	if _, err := readFile(path + ".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := readFile(t.TempDir()); err == nil {
		t.Error("a directory can be read")
	}
}
