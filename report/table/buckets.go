package table

// Buckets sums the selected samples up by time: n buckets of equal length from time from to time to, both in ns.
// Samples outside are left out.
func (t *Table) Buckets(f Filter, from, to uint64, n int) []Sum {
	f.From, f.To = max(f.From, from), min(orLast(f.To), to)
	if n < 1 || f.From > f.To || f.To == 0 {
		return make([]Sum, max(n, 0))
	}
	sums, scale := make([]Sum, n), float64(n)/(float64(to-from)+1)
	for i := range t.selected(&f) {
		sums[min(n-1, int(float64(t.Time[i]-from)*scale))].Add(t.sum(i))
	}
	return sums
}

// Span returns the times of the first and last samples.
func (t *Table) Span() (first, last uint64) {
	first = 1<<64 - 1
	for _, r := range t.Recordings {
		first, last = min(first, r.First), max(last, r.Last)
	}
	return min(first, last), last
}
