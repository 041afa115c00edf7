package spans

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// row is the spans of a group.
type row struct {
	values []string // of the keys
	durations
}

// Table writes a line for each group of spans with equal keys: their number, errors and durations, the largest total
// first. Percentiles are at most 1 % too long, of histograms 12.5 %. The error may be a *key.KeyError.
func Table(w io.Writer, s *session.Session, keep Keep, opts key.Options) (format.Skipped, error) {
	d, keys, err := newKeys(s, opts)
	if err != nil {
		return format.Skipped{}, err
	}
	rows := map[string]*row{}
	var all durations
	skipped, err := d.walk(s, keep, func(one *session.Sample, p *span) {
		var values []string
		for _, v := range keys.Of(one).Values {
			values = append(values, v.Text)
		}
		id := strings.Join(values, "\x00")
		if rows[id] == nil {
			rows[id] = &row{values: values}
		}
		rows[id].add(p.all())
		all.add(p.all())
	})
	if err != nil {
		return skipped, err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %d calls, %d errors, %s\n#\n", all.N(), all.failed, text.Duration(all.total))
	writeRows(out, opts.Words, rows, all.total)
	return skipped, out.Flush()
}

func writeRows(w io.Writer, words []string, rows map[string]*row, total uint64) {
	head := []string{"calls", "errors", "total", "share", "avg", "p50", "p95", "p99", "max"}
	lines := [][]string{append(head, words...)}
	for _, r := range slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.total, a.total), slices.Compare(a.values, b.values))
	}) {
		line := []string{fmt.Sprint(r.N()), fmt.Sprint(r.failed), text.Duration(r.total),
			fmt.Sprintf("%.2f%%", 100*float64(r.total)/float64(max(total, 1)))}
		for _, ns := range []uint64{r.total / r.N(), r.Percentile(50), r.Percentile(95), r.Percentile(99),
			r.Longest()} {
			line = append(line, text.Duration(ns))
		}
		lines = append(lines, append(line, r.values...))
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	numbers := len(widths) - len(words)
	for i, line := range lines {
		begin := "  "
		if i == 0 {
			begin = "# "
		}
		for j, cell := range line {
			if j < numbers {
				begin += fmt.Sprintf("%*s  ", widths[j], cell)
			} else {
				begin += fmt.Sprintf("%-*s  ", widths[j], cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(begin, " "))
	}
}
