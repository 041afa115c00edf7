package report

import "gperf/symbolize"

// order returns items in perf's order: it inserts them into a red-black tree and
// reads it from left to right. left says whether the new item goes to the left of
// an existing one. A stable sort would suffice if perf's comparisons were
// consistent, but they are not, so the result depends on the tree's shape.
func order[T any](items []T, left func(there, new T) bool) []T {
	var t symbolize.RBTree
	for _, item := range items {
		t.Insert(func(n int32) bool { return left(items[n-1], item) })
	}
	sorted := make([]T, 0, len(items))
	for n := range t.All() {
		sorted = append(sorted, items[n-1])
	}
	return sorted
}
