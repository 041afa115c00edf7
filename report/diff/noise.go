package diff

import (
	"fmt"
	"math"

	"github.com/aclements/go-moremath/stats"
)

// noise says how far a result may be from the true one.
type noise struct {
	margin float64 // half of the 95 % confidence interval of the result
	p      float64 // probability of at least this difference if nothing changed
}

// level is the probability below which a difference is no noise. 1 - level is the confidence of
// a margin.
const level = .05

// estimate is the mean of a figure over the recordings of a side.
type estimate struct {
	mean     float64
	variance float64 // of the mean
	freedom  float64 // degrees of freedom of the variance, infinite if it is not from the recordings
}

// estimate estimates the noise of all results.
func (t *table) estimate() {
	sides := make([][]estimate, len(t.totals))
	for i := range sides {
		sides[i] = t.estimatesOf(i)
	}
	for j, r := range t.rows {
		r.noise = make([]noise, len(t.totals))
		for i := 1; i < len(t.totals); i++ {
			r.noise[i] = compareMeans(sides[0][j], sides[i][j])
		}
	}
	for i := 1; i < len(t.totals); i++ {
		t.correct(i)
	}
}

// estimatesOf estimates the compared figures of all rows in side i. The recordings of a side vary at
// least as much as the counts of independent samples (Poisson's distribution). By which factor they
// vary more is estimated from all rows together, because two or three recordings of one row say little.
// Rows that vary more than this factor explains use a variance of the row.
func (t *table) estimatesOf(i int) []estimate {
	list, spreads := make([]estimate, len(t.rows)), make([]float64, len(t.rows))
	for j, r := range t.rows {
		list[j], spreads[j] = t.estimateOf(r, i)
	}
	own := float64(len(t.totals[i]) - 1)
	if own == 0 {
		return list
	}
	var sum, rows float64
	for j, e := range list {
		if e.variance > 0 && spreads[j] > 0 {
			sum, rows = sum+spreads[j]/e.variance, rows+1
		}
	}
	common := max(1, sum/max(rows, 1))
	most := common * chiSquared(1-level, own) / own
	for j := range list {
		switch e := &list[j]; {
		case spreads[j] > most*e.variance:
			e.variance, e.freedom = spreads[j], own
		case common > 1:
			e.variance, e.freedom = common*e.variance, own*rows
		}
	}
	return list
}

// chiSquared returns the quantile of p of the chi-squared distribution, as Wilson and Hilferty
// approximate it.
func chiSquared(p, freedom float64) float64 {
	part := 2 / (9 * freedom)
	return freedom * math.Pow(1-part+stats.InvCDF(stats.StdNormal)(p)*math.Sqrt(part), 3)
}

// estimateOf estimates the figure that is compared: the share of differences of percentages, otherwise
// the period. The variance of the estimate follows from the counts of samples; spread is the variance of the
// recordings. One more sample is assumed for the variance, because few or no samples do not mean that
// there is no variance.
func (t *table) estimateOf(r *row, i int) (e estimate, spread float64) {
	n := float64(len(r.counts[i]))
	var sum, squares, counted float64
	for j, c := range r.counts[i] {
		all := t.totals[i][j]
		if all.period == 0 {
			continue // without samples of the event, no variance is known
		}
		scale, rest := t.scale(i, j), 1.0
		if t.opts.Compute == Delta || t.opts.Compute == DeltaAbs {
			rest = 1 - float64(c.period)/float64(all.period)
		}
		one := c // the period of one sample is the mean
		if c.samples == 0 {
			one = all
		}
		x, step := scale*float64(c.period), scale*float64(one.period)/float64(max(one.samples, 1))
		sum, squares = sum+x, squares+x*x
		counted += step * step * float64(c.samples+1) * rest
	}
	e = estimate{sum / n, counted / (n * n), math.Inf(1)}
	return e, max(0, squares-sum*e.mean) / max(n-1, 1) / n
}

// scale returns the factor that makes the compared figure from a period.
func (t *table) scale(i, j int) float64 {
	switch t.opts.Compute {
	case Ratio:
		return 1
	case Weighted:
		return float64(t.opts.Weights[min(i, 1)])
	}
	return 100 / float64(t.totals[i][j].period)
}

// compareMeans is Welch's t-test.
func compareMeans(a, b estimate) noise {
	variance := a.variance + b.variance
	if variance == 0 {
		return noise{p: 1}
	}
	freedom := variance * variance / (a.variance*a.variance/a.freedom + b.variance*b.variance/b.freedom)
	var dist stats.DistCommon = stats.StdNormal
	if freedom < 1000 { // beyond that, both distributions are the same
		dist = stats.TDist{V: freedom}
	}
	deviation := math.Sqrt(variance)
	return noise{margin: deviation * stats.InvCDF(dist)(1-level/2),
		p: 2 * dist.CDF(-math.Abs(a.mean-b.mean)/deviation)}
}

// changed reports whether the difference is no noise.
func (n noise) changed() bool { return n.p < level }

func (n noise) verdict() string {
	if n.changed() {
		return "changed"
	}
	return "noise"
}

func (n noise) probability() string {
	if n.p < .001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", n.p)
}
