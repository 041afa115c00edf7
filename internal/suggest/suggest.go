// Package suggest suggests similar names for an unknown name of an event, a function or an
// argument.
package suggest

import (
	"slices"
	"strings"
)

// Names returns the names most similar to s, best first, at most five.
func Names(s string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	var l []scored
	limit := max(2, len(s)/3)
	for _, n := range names {
		d := distance(s, n)
		if len(s) >= 3 && strings.Contains(n, s) {
			d = min(d, limit)
		}
		if d <= limit {
			l = append(l, scored{n, d})
		}
	}
	slices.SortStableFunc(l, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, x := range l[:min(len(l), 5)] {
		out = append(out, x.name)
	}
	return out
}

// DidYouMean returns the end of a message about an unknown name, with names similar to it; "" if there are none.
func DidYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, ", ") + "?"
}

// distance returns the Levenshtein distance, with one row of memory.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
