package tui

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"gperf/internal/session"
	"gperf/report"
	"gperf/report/table"
	"gperf/report/top"
)

// topOnScreen is a view of gperf top on a simulated screen, and the intervals that it has not shown yet.
type topOnScreen struct {
	*onScreen
	view  *Top
	later []*interval
}

// showTop reads a recording in intervals of this length.
func showTop(t *testing.T, file string, length time.Duration, o Options, filter report.Filter) *topOnScreen {
	t.Helper()
	s := open(t, file)
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(screen.Fini)
	screen.SetSize(100, 30)
	view, err := NewTop(screen, o, Recording{Session: s, MaxStack: 1024}, filter, "")
	if err != nil {
		t.Fatal(err)
	}
	v := &topOnScreen{onScreen: &onScreen{view.browser, t, screen}, view: view}
	v.draw()
	v.wants("waiting for samples")
	if _, err := top.Run(t.Context(), s, top.Options{Delay: length, Past: true}, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *topOnScreen) Count(s *session.Sample) { v.view.Count(s) }
func (v *topOnScreen) Stacks() int             { return v.view.Stacks() }

// Show implements top.Counter: it keeps the interval for next.
func (v *topOnScreen) Show(i top.Interval) error {
	err := v.view.Show(i)
	v.later = append(v.later, v.live.newest.Load())
	v.live.newest.Store(nil)
	return err
}

// next lets the next interval arrive, and reports whether there is one.
func (v *topOnScreen) next() bool {
	if len(v.later) == 0 {
		return false
	}
	v.live.newest.Store(v.later[0])
	v.later = v.later[1:]
	v.advance()
	v.draw()
	return true
}

// TestTopEqualsText: each interval has the rows of the block of text, with their rates.
func TestTopEqualsText(t *testing.T) {
	const length = 20 * time.Millisecond
	rows := 0
	for _, file := range []string{"two.data", "drops.data", "packets.z.data"} {
		s := open(t, file)
		var blocks []string
		text, err := top.NewBlocks(s, report.Options{MaxStack: 1024, Inline: true}, 0, func(b []byte) error {
			blocks = append(blocks, string(b))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := top.Run(t.Context(), s, top.Options{Delay: length, Past: true}, text); err != nil {
			t.Fatal(err)
		}
		v := showTop(t, file, length, Options{}, report.Filter{})
		for _, block := range blocks {
			if !v.next() {
				t.Fatalf("%s: %d intervals fewer than blocks", file, len(blocks))
			}
			var want, got []string
			for line := range strings.Lines(block) {
				if fields := strings.Fields(line); !strings.HasPrefix(line, "#") && len(fields) > 1 {
					want = append(want, strings.Join(fields[:slices.IndexFunc(fields, isShare)], " "))
				}
			}
			l := v.entries()
			for i := range l.table.Events {
				l.setEvent(i)
				for _, r := range l.entries {
					got = append(got, strings.TrimSpace(v.live.rate(l, &l.counted.List[r.entry])))
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: the rates are %q, want %q of\n%s", file, got, want, block)
			}
			rows += len(want)
		}
		if v.next() {
			t.Errorf("%s: more intervals than %d blocks", file, len(blocks))
		}
	}
	if rows < 50 {
		t.Errorf("the recordings have only %d rows", rows)
	}
}

func isShare(word string) bool { return strings.HasSuffix(word, "%") }

// TestTopFollows: the selected row, the open callchains and the zooms stay those with the same names in the next
// interval.
func TestTopFollows(t *testing.T) {
	v := showTop(t, "two.data", 2*time.Millisecond, Options{Keys: []string{"tid"}}, report.Filter{})
	v.next()
	l := v.entries()
	l.setEvent(slices.IndexFunc(l.table.Events, func(e table.Event) bool { return e.Name == "sched:sched_switch" }))
	followed, opened := false, false
	for {
		if len(l.rows) == 0 { // the event has no samples in this interval
			if !v.next() {
				break
			}
			continue
		}
		if v.press("C<home><down>"); !l.selectedRow().open {
			v.press("+")
		}
		v.wants("until ", "2ms", "events/s")
		name, at, open := l.rowText(l.selectedRow()), l.at, l.selectedRow().open
		if !v.next() {
			break
		}
		i := slices.IndexFunc(l.entries, func(r *row) bool { return l.rowText(r) == name })
		if i < 0 {
			continue
		}
		if now := l.rowText(l.selectedRow()); now != name {
			t.Errorf("%q is selected, want %q", now, name)
		}
		followed = followed || l.at != at
		opened = opened || open && l.entries[i].open
	}
	if !followed || !opened {
		t.Error("no selected row was at another place, or none stayed open: the test shows nothing")
	}
	v.press("T").wants("-d sets its length")
	v.press("Pf<enter>").wants("only text can be exported")
}

// TestTopFreezes: a frozen list, and one below another page, show no new interval.
func TestTopFreezes(t *testing.T) {
	v := showTop(t, "two.data", 2*time.Millisecond, Options{}, report.Filter{})
	v.next()
	shown := v.live.shown
	for _, keys := range []struct{ stop, on string }{{" ", " "}, {"s", "<esc>"}, {"?", "<esc>"}} {
		v.press(keys.stop)
		v.next()
		if v.live.shown != shown {
			t.Errorf("after %q, a new interval is shown", keys.stop)
		}
		v.press(keys.on)
		v.advance()
		if v.live.shown == shown {
			t.Errorf("after %q, no new interval is shown", keys.on)
		}
		shown = v.live.shown
	}
	v.press(" ").wants("FROZEN")
	v.press(" ").lacks("FROZEN")
	v.view.End()
	v.draw()
	v.wants("the recording has ended")
}

// TestTopZooms: zooms select the samples with the same names in each interval, and the filter's samples are shares of
// all samples.
func TestTopZooms(t *testing.T) {
	v := showTop(t, "threads.data", 2*time.Millisecond, Options{Keys: []string{"tid"}}, report.Filter{})
	v.next()
	v.press("t")
	l, threads := v.entries(), 0
	thread := l.zooms[0].thread
	for more := true; more; more = v.next() {
		for _, r := range l.entries {
			threads++
			if text := l.rowText(r); !strings.Contains(text, ":"+thread.Comm) {
				t.Errorf("in %s, %q is shown", thread.Comm, text)
			}
		}
	}
	if threads < 2 {
		t.Errorf("the thread is in %d intervals", threads)
	}
	filter := report.Filter{}
	filter.Comms = []string{thread.Comm}
	v = showTop(t, "threads.data", time.Second, Options{Keys: []string{"comm"}}, filter)
	v.next()
	l = v.entries()
	if len(l.entries) != 1 || l.base.Samples <= l.counted.All.Samples {
		t.Errorf("%d entries, %d of %d samples", len(l.entries), l.counted.All.Samples, l.base.Samples)
	}
	filter.Comms = []string{"nobody"}
	v = showTop(t, "threads.data", time.Second, Options{}, filter)
	if !v.next() {
		t.Error("an interval of hidden samples is not shown")
	}
	v.lacks("%")
}

// TestTopEndsWithoutSamples: a recording without samples does not stay on the screen.
func TestTopEndsWithoutSamples(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(screen.Fini)
	view, err := NewTop(screen, Options{}, Recording{Session: open(t, "two.data")}, report.Filter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for screen.PostEvent(tcell.NewEventInterrupt(nil)) == nil { // no room for the one of the end
	}
	view.End()
	go view.Run()
	view.Wait()
}

// TestTopCode: the code of a function is read where the recording is read, and Quit ends the view.
func TestTopCode(t *testing.T) {
	v := showTop(t, "two.data", time.Second, Options{Keys: []string{"symbol"}}, report.Filter{})
	v.next()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		v.press("a") // a kernel without code: the status says so
		cancel()
	}()
	for ctx.Err() == nil {
		v.view.Work()
	}
	if v.status == "" && len(v.pages) == 1 {
		t.Errorf("neither code nor a message:\n%s", v.text())
	}
	go v.view.Run()
	v.view.Quit()
	v.view.Wait()
}
