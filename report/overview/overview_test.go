package overview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gperf/internal/session"
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
		{"waits", []Item{{Value: "1.2 s", Who: "nginx", What: "lock", Function: "ngx_shmtx_lock",
			By:   "woken by redis-server",
			More: []string{"report", "--kind", "lock"}}}},
	}
	const want = `10.0 s on web: 1.43 of 2 CPUs used, 87.2 % of waits were idle
CPU         61.2 % clang          llvm::SelectionDAG::Legalize(int)              gperf report -c clang
            12.0 % a long … of it garbage collection                         gperf report -c 'it'\''s'
waits        1.2 s nginx          lock: ngx_shmtx_lock, woken by redis-server gperf report --kind lock
`
	if got := o.Text(Screen{Width: 102, Height: 5}); got != want {
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

// TestTasks: the commands select few processes by number, many by the most frequent name of a thread.
func TestTasks(t *testing.T) {
	for _, tt := range []struct {
		samples map[int32]int // by PID
		want    string
	}{
		{map[int32]int{7: 10}, "--pid 7"},
		{map[int32]int{7: 90, 8: 5, 9: 5}, "--pid 7"},
		{map[int32]int{7: 50, 8: 30, 9: 20}, "--pid 7,8,9"},
		{map[int32]int{0: 100}, "-c worker"},
		{map[int32]int{1: 5, 2: 5, 3: 5, 4: 5, 5: 5}, "-c worker"},
	} {
		var of tasks
		for pid, n := range tt.samples {
			for i := range n {
				s := session.Sample{Comm: "worker"}
				if s.PID = pid; i%4 == 3 {
					s.Comm = "other"
				}
				of.add(&s)
			}
		}
		if got := strings.Join(of.flags(), " "); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.samples, got, tt.want)
		}
	}
}
