package export

import (
	"strings"
	"testing"

	"gperf/internal/dso"
)

// Parentheses are part of the names of Ruby's functions; in names of machine code, they are around parameters.
func TestFoldedFrame(t *testing.T) {
	for dsoName, want := range map[string]string{dso.RubyName: "block (2 levels) in run", "/usr/bin/run": "block "} {
		tidy := FoldedOptions{Tidy: true}
		if got := tidy.frame("block (2 levels) in run", dsoName, "", "", false); got != want {
			t.Errorf("of %s: %q, want %q", dsoName, got, want)
		}
	}
}

// Without Tidy, names are whole, and none makes another frame.
func TestFoldedWhole(t *testing.T) {
	for name, want := range map[string]string{
		"(anonymous namespace)::f(int)":                      "(anonymous namespace)::f(int)",
		"run(int)::{lambda(char)#1}::operator()(char) const": "run(int)::{lambda(char)#1}::operator()(char) const",
		"Ptr<int>::operator->() const":                       "Ptr<int>::operator->() const",
		"<impl core::ops::FnOnce<(A,)> for [u8; 4]>::call":   "<impl core::ops::FnOnce<(A,)> for [u8: 4]>::call",
		"operator\"\" _s(char const*)":                       "operator\"\" _s(char const*)",
	} {
		if got := new(FoldedOptions).frame(name, "/usr/bin/run", "", "", false); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	got := new(FoldedOptions).frame("La/B;::c->La/D;::e", "/tmp/perf-1.map", "", "", false)
	if got != "La/B:::c;La/D:::e_[i]" {
		t.Errorf("of a perf map: %q", got)
	}
	for comm, want := range map[string]string{"worker 1": "worker_1", " lead": "_lead", "": "[unnamed]",
		"IO;net": "IO:net", "DB 10/2 x": "DB_10/2_x", "a": "a"} {
		f := folder{}
		if got := f.thread(&tally{Of: &subject{comm: comm}}); got != want {
			t.Errorf("thread %q: %q, want %q", comm, got, want)
		}
	}
}

// TestFoldedJava: the Perl script shortens the names of java's functions if the line begins with "java", which it does
// without IDs, and for a command with IDs in it.
func TestFoldedJava(t *testing.T) {
	for _, c := range []struct {
		comm string
		pid  bool
		want string
	}{{"java", false, "java;org/x/f 1\n"}, {"java", true, "java-7;Lorg/x/f 1\n"},
		{"java 12/13", false, "java;org/x/f 1\n"}, {"node", false, "node;Lorg/x/f 1\n"}} {
		of := subjectOf(0, c.comm, false)
		of.pid, of.tid, of.chained = 7, 7, true
		set := &StackSet{MaxStack: 9, Processes: c.pid,
			events: []stackEvent{{name: "e", tracepoint: true, unit: "count"}},
			tallies: talliesOf(tally{Of: of, StackKey: stackKey(nil, frame("prog:Lorg/x/f", 0x10)),
				Sum: stackSum{samples: 1}})}
		var b strings.Builder
		if err := set.Folded(&b, FoldedOptions{Tidy: true, PID: c.pid}); err != nil || b.String() != c.want {
			t.Errorf("%q: %q, %v; want %q", c.comm, b.String(), err, c.want)
		}
	}
}
