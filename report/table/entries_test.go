package table_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gperf/internal/session"
	"gperf/report"
	"gperf/report/table"
)

// reported returns the entries of an event as gperf report counts and orders them, without the mode of symbols: perf
// marks callers in the kernel like callers in a process.
func reported(t *testing.T, s *session.Session, event, keys string, children bool) (lines []string) {
	t.Helper()
	hists, _, err := report.Histograms(s, report.Options{Sort: keys, NoChildren: !children, Inline: true,
		MaxStack: 1024, Groups: report.GroupsApart, Branches: report.BranchesOff})
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
			lines = append(lines, line(total.Period, e.Self.Period, total.Samples, e.Self.Samples, texts))
		}
	}
	return lines
}

var mode = strings.NewReplacer("[k] ", "", "[.] ", "")

func line(total, self, samples, selfSamples uint64, texts []string) string {
	return mode.Replace(fmt.Sprintf("%d %d %d %d %s", total, self, samples, selfSamples, strings.Join(texts, " | ")))
}

// entries returns the entries that the terminal shows, in the same form.
func entries(tab *table.Table, event int, keys string, children bool) (lines []string) {
	c := table.Counter{Table: tab}
	e := c.Entries(table.Filter{Event: event}, strings.Split(keys, ","), children)
	for i := range e.List {
		entry := &e.List[i]
		var texts []string
		for k := range e.Keys {
			texts = append(texts, strings.TrimSpace(e.Text(entry, k)))
		}
		lines = append(lines, line(entry.Total.Weight, entry.Self.Weight, entry.Total.Samples, entry.Self.Samples,
			texts))
	}
	return lines
}

// threadName is the name in the key pid. Report names an entry after the thread of its first sample, and several
// threads may have had a number one after the other; the terminal shows the name of the first of these.
var threadName = regexp.MustCompile(`^((?:\d+ ){4}\d+):[^|]*\|`)

// alike returns entries with what is compared in foreign recordings. Those with equal figures may be in another order.
func alike(list []string) (sorted []string) {
	for _, e := range list {
		sorted = append(sorted, threadName.ReplaceAllString(e, "$1|"))
	}
	slices.Sort(sorted)
	return sorted
}

// compare compares all entries of a recording, which open opens anew for each count, and returns their number.
func compare(t *testing.T, foreign bool, open func() *session.Session) (seen int) {
	t.Helper()
	l := table.Loader{Exact: true}
	if _, err := l.Add(table.Source{Session: open()}); err != nil {
		t.Fatal(err)
	}
	tab := l.Table()
	for event := range tab.Events {
		name := tab.Events[event].Name
		for _, keys := range []string{"comm,dso,symbol", "symbol", "dso", "comm", "pid,symbol", "comm,dso"} {
			for _, children := range []bool{true, false} {
				s := open()
				if children && s.File.Pipe {
					continue // like perf, report shows no children there
				}
				got, want := entries(tab, event, keys, children), reported(t, s, name, keys, children)
				seen += len(want)
				if foreign {
					got, want = alike(got), alike(want)
				}
				for i := range max(len(got), len(want)) {
					g, w := "nothing", "nothing"
					if i < len(got) {
						g = got[i]
					}
					if i < len(want) {
						w = want[i]
					}
					if g != w {
						t.Errorf("%s by %s, children %v: entry %d of %d: %s\nwant entry of %d: %s", name, keys,
							children, i, len(got), g, len(want), w)
						break
					}
				}
			}
		}
	}
	return seen
}

// TestEntriesAreThoseOfReport: the entries, the figures and the order are the same as in gperf report.
func TestEntriesAreThoseOfReport(t *testing.T) {
	seen := 0
	for _, path := range []string{"two.data", "threads.data", "drops.data", "answers.data", "spans.data"} {
		t.Run(path, func(t *testing.T) {
			seen += compare(t, false, func() *session.Session { return table.Open(t, "../../testdata/"+path) })
		})
	}
	if seen < 1000 {
		t.Errorf("the recordings have only %d entries", seen)
	}
}

// corpus contains, next to the checkout, recordings of other people.
const corpus = "../../../shared/fixtures"

// TestCorpusEntries: so it is with the recordings of other people.
func TestCorpusEntries(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	if _, err := os.Stat(corpus); err != nil {
		t.Skip("no recordings of other people: ", err)
	}
	files, err := filepath.Glob(corpus + "/perf-data*/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.IsDir() || table.TryOpen(t, path) == nil {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			seen += compare(t, true, func() *session.Session { return table.Open(t, path) })
		})
	}
	t.Log(seen, "entries")
}
