package symbolize

import (
	"os/exec"
	"path/filepath"
	"testing"

	"gperf/internal/dso"
)

// TestFunctionStart compares the FDEs of a stripped program with the symbols that it had.
func TestFunctionStart(t *testing.T) {
	strip, err := exec.LookPath("strip")
	if err != nil {
		t.Skip("strip is not installed (package binutils)")
	}
	for _, flags := range [][]string{{"-O1", "-pie", "-fPIE"}, {"-O1", "-no-pie", "-Wl,-Ttext-segment=0x10000000"}} {
		path := compile(t, cProgram, flags...)
		stripped := filepath.Join(t.TempDir(), "a")
		if out, err := exec.Command(strip, "-o", stripped, path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		im, err := dso.Open(stripped)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		s := New(Options{})
		for _, name := range []string{"main", "work"} {
			want := vaddrOf(t, path, name)
			off, ok := im.OffOfVaddr(want)
			if !ok {
				t.Fatalf("%#x is nowhere in the file", want)
			}
			for _, in := range []uint64{0, 1} {
				if got, ok := s.FunctionStart(stripped, dso.BuildID{}, off+in); !ok || got != want {
					t.Errorf("%v: %s+%d: %#x, %v; want %#x", flags, name, in, got, ok, want)
				}
			}
		}
		for path, off := range map[string]uint64{stripped: 1 << 40, stripped + ".missing": 0} {
			if got, ok := s.FunctionStart(path, dso.BuildID{}, off); ok {
				t.Errorf("%s+%#x: %#x; want no function", path, off, got)
			}
		}
	}
}
