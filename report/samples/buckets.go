package samples

// Row is what the rows of Buckets are.
type Row int

const (
	ByThread Row = iota // index in Table.Threads
	ByCPU               // number of the CPU, and one more row for samples without a CPU
)

// Buckets sums the selected samples up by row and time: n buckets of equal length from time from to time to, both in
// ns. Samples outside are left out.
func (t *Table) Buckets(f Filter, row Row, from, to uint64, n int) [][]Sum {
	rows := make([][]Sum, len(t.Threads))
	if row == ByCPU {
		rows = make([][]Sum, t.CPUs()+1)
	}
	if n < 1 || to < from {
		return rows
	}
	for i := range rows {
		rows[i] = make([]Sum, n)
	}
	f.From, f.To = max(f.From, from), min(orLast(f.To), to)
	if f.From > f.To || f.To == 0 {
		return rows
	}
	scale := float64(n) / (float64(to-from) + 1)
	for i := range t.selected(&f) {
		at := int(t.Thread[i])
		if row == ByCPU {
			if at = int(t.CPU[i]); at < 0 {
				at = len(rows) - 1
			}
		}
		s := &rows[at][min(n-1, int(float64(t.Time[i]-from)*scale))]
		s.Weight += t.Weight[i]
		s.Samples++
	}
	return rows
}

// CPUs returns the number of CPUs: one more than the highest of a sample.
func (t *Table) CPUs() int {
	n := 0
	for _, cpu := range t.CPU {
		n = max(n, int(cpu)+1)
	}
	return n
}

// ByRow sums the selected samples up by thread or CPU, in the order of Buckets.
func (t *Table) ByRow(f Filter, row Row) []Sum {
	first, last := t.Span()
	sums := make([]Sum, 0)
	for _, buckets := range t.Buckets(f, row, first, last, 1) {
		sums = append(sums, buckets[0])
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
