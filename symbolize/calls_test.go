package symbolize

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gperf/symbolize/dso"
)

const inlinedProgram = `
__attribute__((noinline)) int sink(int n) { __asm__ volatile("" : "+r"(n)); return n; }
static inline __attribute__((always_inline)) int inner(int n) {
	return sink(n) + 1;
}
static inline __attribute__((always_inline)) int middle(int n) {
	return inner(n) * 3;
}
__attribute__((noinline)) int outer(int n) {
	return middle(n) + sink(n);
}
int main(int argc, char **argv) { return outer(argc); }
`

// An address in an inlined function is told with the calls that it is inlined by.
func TestUserCalls(t *testing.T) {
	path := compile(t, inlinedProgram, "-O2", "-g")
	im, err := dso.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	start, _ := im.OffOfVaddr(vaddrOf(t, path, "outer"))
	s := New(Options{})
	defer s.Close()
	seen := map[string]bool{}
	for off := start; off < start+32; off++ {
		calls, why := s.UserCalls(path, dso.BuildID{}, off)
		if why != Found {
			continue
		}
		var text []string
		for _, c := range calls {
			text = append(text, fmt.Sprintf("%s %s:%d %v", c.Function, filepath.Base(c.File), c.Line, c.Inlined))
		}
		seen[strings.Join(text, ", ")] = true
	}
	if want := "inner a.c:4 true, middle a.c:7 true, outer a.c:10 false"; !seen[want] {
		t.Errorf("%q is not among %v", want, seen)
	}
	if err := s.CallsProblem(path, dso.BuildID{}); err != nil {
		t.Error(err)
	}
	path = compile(t, inlinedProgram, "-O2", "-g0")
	if _, why := s.UserCalls(path, dso.BuildID{}, start); why != NoLines {
		t.Errorf("without debug information: %v, want %v", why, NoLines)
	}
}
