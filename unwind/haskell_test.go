package unwind

import (
	"debug/elf"
	"os/exec"
	"testing"

	"gperf/internal/dso"
)

// TestHaskell finds the frames of GHC's code in programs, in stripped ones, and in libraries.
func TestHaskell(t *testing.T) {
	const frame, lowered = "cfa=rsp+16440 ra=c-8 fp=c-48", "cfa=rsp+16448 ra=c-8 fp=c-48"
	want := map[string]string{"plain": frame, "plain_return": frame, "lowered": lowered, "lowered_return": lowered,
		"restored": frame, "stgrun_frame": frame, "c": "cfa=rsp+8 ra=c-8 fp=s"}
	for name, flags := range map[string][]string{"program": {"-static"}, "stripped": {"-static"},
		"library": {"-shared", "-DLIBRARY"}} {
		t.Run(name, func(t *testing.T) {
			path := compileWith(t, "gcc", "haskell.S", append(flags, "-nostdlib", "-Wl,-e,c")...)
			labels := labelsOf(t, path)
			if name == "stripped" {
				if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
					t.Skipf("strip: %v: %s", err, out)
				}
			}
			im, err := dso.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer im.Close()
			table, err := Build(im)
			if err != nil {
				t.Fatal(err)
			}
			for label, rule := range want {
				at, ok := labels[label]
				if !ok && name == "library" && label == "stgrun_frame" {
					continue
				}
				if got := table.Lookup(at).String(); !ok || got != rule {
					t.Errorf("%s: %s, want %s", label, got, rule)
				}
			}
		})
	}
}

// labelsOf returns the addresses of a file's symbols.
func labelsOf(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]uint64{}
	for _, s := range symbols {
		labels[s.Name] = s.Value
	}
	return labels
}
