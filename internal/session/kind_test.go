package session

import "testing"

// TestKind checks what kind of code frames are in.
func TestKind(t *testing.T) {
	in := func(dso string) *Map { return &Map{DSO: &DSO{Name: dso}} }
	for _, c := range []struct {
		name  string
		frame *Frame
		want  Kind
	}{
		{"kernel", &Frame{Kernel: true, Map: in("[kernel.kallsyms]")}, KindKernel},
		{"no mapping", &Frame{}, KindUnknown},
		{"a program", &Frame{Map: in("/usr/bin/perf-1.map")}, KindNative},
		{"a perf map", &Frame{Map: in("/tmp/perf-17.map")}, KindJIT},
		{"Python", &Frame{Map: in("[python]")}, KindRuntime},
		{"the vDSO", &Frame{Map: in("[vdso]")}, KindNative},
	} {
		if got := c.frame.Kind(); got != c.want {
			t.Errorf("%s: kind %d, want %d", c.name, got, c.want)
		}
	}
}
