package diff

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCompareMeans compares with R: t.test(c(9, 10, 11), c(13, 14, 15)), and the normal distribution.
func TestCompareMeans(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		name       string
		a, b       estimate
		margin, p  float64
		wantChange bool
	}{
		{"three and three", estimate{10, 1. / 3, 2}, estimate{14, 1. / 3, 2}, 2.267, .00805, true},
		{"one and three", estimate{10, 1. / 3, inf}, estimate{14, 1. / 3, 2}, 1.883, .001195, true},
		{"one and one", estimate{10, 2, inf}, estimate{12, 2, inf}, 3.920, .3173, false},
		{"many", estimate{10, 1. / 3, 5000}, estimate{14, 1. / 3, 5000}, 1.600, 9.6e-7, true},
		{"no variance", estimate{10, 0, inf}, estimate{10, 0, inf}, 0, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := compareMeans(test.a, test.b)
			if math.Abs(n.margin-test.margin) > .001 || math.Abs(n.p-test.p) > test.p/100 ||
				n.changed() != test.wantChange {
				t.Errorf("%+v, want margin %v, p %v", n, test.margin, test.p)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	counted := func(samples ...uint64) (list []count) {
		for _, n := range samples {
			list = append(list, count{n, 100 * n})
		}
		return list
	}
	for _, test := range []struct {
		name     string
		old, new []count
		want     string
	}{
		{"none and few", counted(0), counted(5), "noise"},
		{"none and some", counted(0), counted(20), "changed"},
		{"nearly the same", counted(250), counted(270), "noise"},
		{"more", counted(250), counted(310), "changed"},
		{"more in each of three", counted(250, 245, 256), counted(290, 285, 296), "changed"},
		{"more in two of three", counted(250, 245, 256), counted(290, 200, 350), "noise"},
		{"two that agree by chance", counted(9, 9), counted(12, 12), "noise"},
		{"none at all", counted(0), counted(0), "noise"},
	} {
		t.Run(test.name, func(t *testing.T) {
			totals := func(list []count) []count { return make([]count, len(list)) }
			for _, compute := range []Compute{DeltaAbs, Delta, Ratio, Weighted} {
				r := &row{counts: [][]count{test.old, test.new}}
				tab := &table{opts: &Options{Compute: compute, Weights: [2]int64{1, 1}}, rows: []*row{r},
					totals: [][]count{totals(test.old), totals(test.new)}}
				for _, side := range tab.totals {
					for i := range side {
						side[i] = count{1000, 100_000}
					}
				}
				tab.estimate()
				n := r.noise[1]
				if n.verdict() != test.want || math.IsNaN(n.margin) || math.IsNaN(n.p) {
					t.Errorf("method %d: %+v, want %s", compute, n, test.want)
				}
			}
		})
	}
}

// TestEstimateOfNothing: without samples of the event, there is no variance.
func TestEstimateOfNothing(t *testing.T) {
	r := &row{counts: [][]count{{{0, 0}}, {{0, 0}, {0, 0}}}}
	tab := &table{opts: &Options{}, rows: []*row{r}, totals: r.counts}
	tab.estimate()
	if n := r.noise[1]; n.p != 1 || n.margin != 0 {
		t.Errorf("%+v, want p 1 and margin 0", n)
	}
}

// simulated compares recordings of a program, each with so many samples of functions with these
// shares. jitter is the standard deviation of the shares of every third row from recording to
// recording. It returns the verdicts about the functions.
func simulated(rng *rand.Rand, recordings int, jitter float64, old, new []float64) (changed []bool) {
	t := &table{opts: &Options{}, totals: zeroCounts([][]int{make([]int, recordings), make([]int, recordings)})}
	for range old {
		t.rows = append(t.rows, &row{counts: zeroCounts(t.totals)})
	}
	for i, shares := range [][]float64{old, new} {
		for j := range recordings {
			for k, share := range shares {
				if k%3 == 2 {
					share *= max(0, 1+jitter*rng.NormFloat64())
				}
				n := poisson(rng, 50*share) // of 5000 samples
				t.rows[k].counts[i][j] = count{n, 1000 * n}
				t.totals[i][j].samples += n
				t.totals[i][j].period += 1000 * n
			}
		}
	}
	t.estimate()
	for _, r := range t.rows {
		changed = append(changed, r.noise[1].changed())
	}
	return changed
}

// poisson returns a number of Poisson's distribution.
func poisson(rng *rand.Rand, mean float64) uint64 {
	if mean > 50 {
		return uint64(math.Round(max(0, mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	n, product := uint64(0), rng.Float64()
	for limit := math.Exp(-mean); product > limit; n++ {
		product *= rng.Float64()
	}
	return n
}

// TestVerdictsOfManyRows simulates recordings: of those without a change, hardly one in twenty has a
// row that is called one, however many rows there are. A function that is slower by 20 % is found.
func TestVerdictsOfManyRows(t *testing.T) {
	const trials = 400
	rng := rand.New(rand.NewPCG(1, 2))
	few, many := []float64{20, 20, 20, 20, 20}, []float64{20} // percent
	for i := range 400 {
		many = append(many, 12/float64(1+i)) // half of the rows count 3 samples or fewer in a recording
	}
	for _, c := range []struct {
		name       string
		recordings int
		jitter     float64
		shares     []float64
		found      float64 // least part of the trials in which the slower function is found
	}{
		{"few rows", 1, 0, few, .8},
		{"few rows, three recordings", 3, 0, few, .9},
		{"many rows", 1, 0, many, .5},
		{"many rows, three recordings", 3, 0, many, .8},
		{"few rows that vary, three recordings", 3, .05, few, .9},
		{"many rows that vary, three recordings", 3, .1, many, .75},
		{"many rows that vary much, four recordings", 4, .15, many, .75},
	} {
		t.Run(c.name, func(t *testing.T) {
			slower := slices.Clone(c.shares)
			slower[0] *= 1.2
			wrong, found := 0, 0
			for range trials {
				if slices.Contains(simulated(rng, c.recordings, c.jitter, c.shares, c.shares), true) {
					wrong++
				}
				if simulated(rng, c.recordings, c.jitter, c.shares, slower)[0] {
					found++
				}
			}
			t.Logf("a change without one in %.1f %%, the slower function in %.1f %%", 100*float64(wrong)/trials,
				100*float64(found)/trials)
			if part := float64(wrong) / trials; part > .08 {
				t.Errorf("%.2f of the comparisons have a change that is none, want at most %v", part, level)
			}
			if part := float64(found) / trials; part < c.found {
				t.Errorf("the slower function is found in %.2f of the comparisons, want %v", part, c.found)
			}
		})
	}
}
