package session

import "testing"

// Frames without a symbol get the DSO's name in brackets, once.
func TestLabelOfDSO(t *testing.T) {
	for name, want := range map[string]string{"/usr/lib/libz.so.1": "[libz.so.1]", "[vdso]": "[vdso]",
		"/tmp/perf-1.map": "[JIT] tid 1"} {
		f := NamedFrame(-1, 0x1000, false, &Map{DSO: &DSO{Name: name}}, nil)
		if got := f.Label(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
