package tui

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gperf/report"
	sorted "gperf/report/key"
)

var percentage = regexp.MustCompile(`\d+\.\d\d%`)

// TestSortKeys: by each key of gperf help sort that a sample has, and by each field, the view has as many entries as
// printed reports, with the same percentages.
func TestSortKeys(t *testing.T) {
	compared := 0
	for _, file := range []string{"two.data", "drops.data", "answers.data"} {
		f := open(t, file).File
		names := report.Keys()
		for i := range f.Attrs {
			if tracepoint := f.Tracepoint(i); tracepoint != nil {
				for _, field := range tracepoint.Fields {
					names = append(names, field.Name)
				}
			}
		}
		for _, name := range names {
			keys, err := sorted.Names(f, name)
			if err != nil || report.HasFigures(name) { // which are printed
				continue
			}
			var printed, text strings.Builder
			if _, err := report.Text(&printed, open(t, file), report.Options{Sort: name, NoChildren: true, Inline: true,
				MaxStack: 1024}); err != nil {
				continue // needs a recording of another kind
			}
			v := show(t, file, 80, 24, Options{Keys: keys})
			for event := range v.entries().table.Events {
				v.entries().setEvent(event)
				if err := v.entries().writeText(&text); err != nil {
					t.Fatal(err)
				}
			}
			got, want := sharesOf(text.String()), sharesOf(printed.String())
			if !slices.Equal(got, want) {
				t.Errorf("%s by %s has the shares %s, want %s", file, name, got, want)
			}
			compared += len(want)
		}
	}
	if compared < 500 {
		t.Errorf("the recordings have only %d entries", compared)
	}
}

// sharesOf returns the percentages of the entries of a report, sorted.
func sharesOf(text string) (shares []string) {
	for _, line := range entriesOf(text) {
		shares = append(shares, percentage.FindString(line))
	}
	slices.Sort(shares)
	return shares
}
