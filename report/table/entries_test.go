package table

import (
	"fmt"
	"strings"
	"testing"

	"gperf/report"
)

// reported returns the entries of an event as gperf report counts and orders them.
func reported(t *testing.T, path, event, keys string, children bool) (lines []string) {
	t.Helper()
	hists, _, err := report.Histograms(open(t, path), report.Options{Sort: keys, NoChildren: !children, Inline: true,
		MaxStack: 1024})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hists {
		if h.Event != event {
			continue
		}
		for _, e := range h.Entries {
			var texts []string
			for _, c := range h.Columns() {
				texts = append(texts, c.Text(e))
			}
			total := e.Self
			if children {
				total = e.Children
			}
			lines = append(lines, fmt.Sprintf("%d %d %d %d %s", total.Period, e.Self.Period, total.Samples,
				e.Self.Samples, strings.Join(texts, " | ")))
		}
	}
	return lines
}

// TestEntriesAreThoseOfReport: the entries, the figures and the order are the same as in gperf report.
func TestEntriesAreThoseOfReport(t *testing.T) {
	seen := 0
	for _, path := range []string{"two.data", "threads.data", "drops.data", "answers.data", "spans.data"} {
		l := Loader{Exact: true}
		if _, err := l.Add(Source{Path: path, Session: open(t, path)}); err != nil {
			t.Fatal(err)
		}
		table := l.Table()
		for event := range table.Events {
			name := table.Events[event].Name
			for _, keys := range []string{"comm,dso,symbol", "symbol", "dso", "comm", "pid,symbol", "comm,dso"} {
				for _, children := range []bool{true, false} {
					t.Run(fmt.Sprint(path, " ", name, " ", keys, children), func(t *testing.T) {
						c := Counter{Table: table}
						e := c.Entries(Filter{Event: event}, strings.Split(keys, ","), children)
						var got []string
						for i := range e.List {
							entry := &e.List[i]
							var texts []string
							for k := range e.Keys {
								texts = append(texts, strings.TrimSpace(e.Text(entry, k)))
							}
							got = append(got, fmt.Sprintf("%d %d %d %d %s", entry.Total.Weight, entry.Self.Weight,
								entry.Total.Samples, entry.Self.Samples, strings.Join(texts, " | ")))
						}
						want := reported(t, path, name, keys, children)
						seen += len(want)
						// perf marks callers in the kernel like callers in a process.
						mode := strings.NewReplacer("[k] ", "", "[.] ", "")
						for i := range max(len(got), len(want)) {
							g, w := "nothing", "nothing"
							if i < len(got) {
								g = mode.Replace(got[i])
							}
							if i < len(want) {
								w = mode.Replace(want[i])
							}
							if g != w {
								t.Fatalf("entry %d of %d: %s\nwant entry of %d: %s", i, len(got), g, len(want), w)
							}
						}
					})
				}
			}
		}
	}
	if seen < 1000 {
		t.Errorf("the recordings have only %d entries", seen)
	}
}
