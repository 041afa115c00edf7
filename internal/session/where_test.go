package session

import "testing"

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"/usr/lib/libc.so.6": "libc.so.6", "[kernel.kallsyms]": "[kernel.kallsyms]", "[vdso]": "[vdso]", "//anon": "anon",
		"/tmp/perf-42.map": "[JIT] tid 42", "/tmp/perf-x.map": "perf-x.map", "bpf_prog_1": "bpf_prog_1",
	} {
		if got := ShortName(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
