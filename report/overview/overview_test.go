package overview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestText: lines of a narrow screen, and how many items of each section fit.
func TestText(t *testing.T) {
	o := &Overview{Host: "web", CPUs: 2, Duration: 10 * time.Second, Busy: 14_300_000_000, Idle: 87.25}
	o.Sections = []Section{
		{"CPU", []Item{
			{Value: "61.2 %", Who: "clang", Function: "llvm::SelectionDAG::Legalize(int)",
				More: []string{"report", "-c", "clang"}},
			{Value: "12.0 %", Who: "a long name of it", What: "garbage collection", More: []string{"report", "-c", "it's"}},
			{Value: "2.0 %", Who: "c", More: []string{"report"}},
		}},
		{"waits", []Item{{Value: "1.2 s", Who: "nginx", What: "lock", Function: "ngx_shmtx_lock", By: "redis-server",
			More: []string{"report", "--kind", "lock"}}}},
	}
	const want = `10.0 s on web: 1.43 of 2 CPUs used, 87.2 % of waits were idle
CPU         61.2 % clang        llvm::SelectionDAG::Legalize(int)              gperf report -c clang
            12.0 % a long…of it garbage collection                         gperf report -c 'it'\''s'
waits        1.2 s nginx        lock: ngx_shmtx_lock, woken by redis-server gperf report --kind lock
`
	if got := o.Text(Screen{Width: 100, Height: 5}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for width := 40; width < 200; width++ {
		for line := range strings.Lines(o.Text(Screen{Width: width, Height: 10})) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > max(width, 60) {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
	if got := o.Text(Screen{Width: 80, Height: 24, File: []string{"-i", "x y"}}); strings.Count(got, "\n") != 5 ||
		!strings.Contains(got, "gperf report -i 'x y' -c clang\n") {
		t.Error(got)
	}
}

// TestSeconds: three digits and a unit.
func TestSeconds(t *testing.T) {
	for ns, want := range map[uint64]string{0: "0 ns", 999: "999 ns", 1_000: "1.00 us", 12_340_000: "12.3 ms",
		123_400_000: "123 ms", 61_000_000_000: "61.0 s"} {
		if got := seconds(ns); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
}
