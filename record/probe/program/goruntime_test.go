package program

import (
	"debug/elf"
	"errors"
	"io"
	"os"
	"testing"
)

// Functions of Go's runtime are found in stripped programs, too, and probes are at instructions that the kernel
// emulates.
func TestFindGoRuntime(t *testing.T) {
	var found [2]*GoRuntime
	for i, path := range []string{functionsGo.Path(t), functionsGoBare.Path(t)} {
		g, err := FindGoRuntime(path, "runtime.gopark", "runtime.execute")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if v := f.goVersion(); !since(v, "go1.20") || since(v, "go9.1") || g.GoID == 0 {
			t.Errorf("%s is of %q: %+v", path, v, g)
		}
		for _, off := range g.Functions {
			if !isJump(t, path, off) {
				t.Errorf("%s: no conditional jump at %#x", path, off)
			}
		}
		found[i] = g
	}
	if n := len(found[0].Functions); n != 2 || found[0].Functions[0] == found[0].Functions[1] {
		t.Errorf("%+v", found[0])
	}
	if _, err := FindGoRuntime(functionsGo.Path(t), "runtime.goneaway"); err == nil || errors.Is(err, ErrNotGo) {
		t.Errorf("a function that is missing: %v", err)
	}
	if _, err := FindGoRuntime("/bin/sh", "runtime.gopark"); !errors.Is(err, ErrNotGo) {
		t.Errorf("/bin/sh: %v", err)
	}
}

// isJump reports whether the instruction at an offset of a file is a conditional jump.
func isJump(t *testing.T, path string, off uint64) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code := make([]byte, 4)
	if _, err := f.ReadAt(code, int64(off)); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	e, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	if e.Machine == elf.EM_AARCH64 {
		return code[3] == 0x54
	}
	return code[0]&0xf0 == 0x70 || code[0] == 0x0f && code[1]&0xf0 == 0x80
}
