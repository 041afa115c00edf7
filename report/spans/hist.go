package spans

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/report/key"
)

// Histograms writes for each group of spans how many lasted how long, by powers of two. The groups are the same as in
// the keys, and without keys the names of system calls and events; the largest total is first. The
// error may be a *key.KeyError.
func Histograms(w io.Writer, s *session.Session, keep Keep, opts key.Options) (format.Skipped, error) {
	d, keys, err := newKeys(s, opts)
	if err != nil {
		return format.Skipped{}, err
	}
	groups := map[string]*durations{}
	skipped, err := d.walk(s, keep, func(one *session.Sample, p *span) {
		title := d.name(p)
		if len(opts.Words) > 0 {
			title = titleOf(keys.Of(one))
		}
		if groups[title] == nil {
			groups[title] = &durations{}
		}
		groups[title].add(p.all())
	})
	if err != nil {
		return skipped, err
	}
	titles := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[b].total, groups[a].total), cmp.Compare(a, b))
	})
	out := bufio.NewWriter(w)
	for i, title := range titles {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "# %s: %d spans, %s ms\n", title, groups[title].N(), millis(groups[title].total))
		groups[title].write(out)
	}
	return skipped, out.Flush()
}

func titleOf(g *key.Group) string {
	var words []string
	for _, v := range g.Values {
		words = append(words, v.Key+"="+v.Text)
	}
	return strings.Join(words, " ")
}

// barWidth is the length of the longest bar.
const barWidth = 40

func (d *durations) write(w io.Writer) {
	counts, first, last := d.Powers()
	most := slices.Max(counts[:])
	for i := first; i <= last; i++ {
		n := int((counts[i]*barWidth + most/2) / most)
		fmt.Fprintf(w, "%10s .. %-10s %10d |%-*s|\n", bound(i), bound(i+1), counts[i], barWidth, strings.Repeat("@", n))
	}
}

// bound returns 1<<i ns.
func bound(i int) string {
	ns := math.Ldexp(1, i)
	for _, u := range [...]struct {
		size float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns >= u.size {
			return strconv.FormatFloat(ns/u.size, 'f', 2, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(ns, 'f', -1, 64) + " ns"
}
