package dso

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStays: files of the system, where they are still those of their names, and the running program.
func TestStays(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		name, path string
		stays      bool
	}{{self, self, true}, {own, own, false}, {shell, shell, true}, {shell, own, false}, {own, shell, false}} {
		file, err := os.Open(test.path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if stays := Stays(test.name, file); stays != test.stays {
			t.Errorf("the file %s, recorded as %s, stays: %v", test.path, test.name, stays)
		}
	}
}
