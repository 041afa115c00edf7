package diff

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// correct raises the probabilities of all rows for side i, so that with probability 1 - level no row
// is wrongly called a change, however many rows there are. It applies Holm's method to the rows
// with enough samples to show a change at all, as Tarone suggested: many rows count one or two.
func (t *table) correct(i int) {
	floors := make([]float64, len(t.rows))
	for j, r := range t.rows {
		floors[j] = r.floor(i)
	}
	slices.Sort(floors)
	n, _ := slices.BinarySearchFunc(floors, level, compareProbability)
	factor := 1
	for ; factor < n; factor++ {
		if tests, _ := slices.BinarySearchFunc(floors, level/float64(factor), compareProbability); tests <= factor {
			break
		}
	}
	var tested []*noise
	for _, r := range t.rows {
		if r.floor(i) <= level/float64(factor) {
			tested = append(tested, &r.noise[i])
		} else {
			r.noise[i].p = 1
		}
	}
	slices.SortFunc(tested, func(a, b *noise) int { return compareProbability(a.p, b.p) })
	least := 0.0
	for j, n := range tested {
		least = max(least, min(1, n.p*float64(max(factor-j, 1))))
		n.p = least
	}
}

// compareProbability orders numbers, and lets equal ones precede a limit.
func compareProbability(a, b float64) int {
	if a <= b {
		return -1
	}
	return 1
}

// floor returns about the least probability that compareMeans can return for the row's samples: if one
// side contained all of them.
func (r *row) floor(i int) float64 {
	var samples uint64
	for _, side := range []int{0, i} {
		for _, c := range r.counts[side] {
			samples += c.samples
		}
	}
	n := float64(samples)
	return 2 * stats.StdNormal.CDF(-n/math.Sqrt(n+2))
}
