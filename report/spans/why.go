package spans

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"gperf/format"
	"gperf/internal/session"
	"gperf/internal/text"
	"gperf/report/key"
)

// Why returns a function that writes why some spans that an expression of --filter selects are longer than others: for
// each function or system call, what threads did in the longest ones, those above a percentile, and in the others, on
// average, as Slowest says it of single ones.
func Why(percentile float64, where string) func(io.Writer, *session.Session, Keep, key.Options) (format.Skipped,
	error) {
	return report(where, 0, func(w io.Writer, l *calls) {
		l.writeMissing(w)
		groups := map[string][]*call{} // by name, the longest first
		total := map[string]uint64{}
		for _, c := range l.chosen {
			groups[c.name] = append(groups[c.name], c)
			total[c.name] += c.duration
		}
		names := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
			return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b))
		})
		for i, name := range names[:min(len(names), mostGroups)] {
			if i > 0 {
				fmt.Fprintln(w)
			}
			g := groups[name]
			n := max(1, int(math.Round(float64(len(g))*(100-percentile)/100)))
			slow, others := newParts(), newParts()
			for i, c := range g {
				if i < n {
					slow.add(l.did, c)
				} else {
					others.add(l.did, c)
				}
			}
			c := comparison{l.did, slow, others, slow.calls, others.calls}
			c.writeAll(w, name)
		}
		if left := len(names) - mostGroups; left > 0 {
			fmt.Fprintf(w, "\n# %d more have less time in all: choose some by --filter\n", left)
		}
	})
}

const (
	mostGroups = 10 // functions or system calls that are explained
	mostRows   = 10 // parts of one
	leastMore  = 1  // of the difference, in percent, that is worth a row
)

// comparison is what threads did in slow calls, and in others.
type comparison struct {
	did          *activity
	slow, others *parts
	// Over these calls the parts are averaged: those for which a waker did them.
	slowCalls, otherCalls uint64
}

// difference is the average of a part in slow calls and in others, in ns.
type difference struct {
	what         string
	slow, others uint64
	comm         string      // of the thread that ended the waits
	wakers       *comparison // what it did, nil if that is not known
}

// more returns by how much the part is longer in slow calls.
func (d *difference) more() int64 { return int64(d.slow) - int64(d.others) }

func (d *difference) write(w io.Writer, prefix string) {
	more := text.Duration(uint64(max(d.more(), -d.more())))
	if d.more() < 0 {
		more = "-" + more
	}
	fmt.Fprintf(w, "%9s %9s %9s  %s%s\n", text.Duration(d.slow), text.Duration(d.others), more, prefix, d.what)
}

// writeAll writes the comparison of the calls of a function or system call.
func (c *comparison) writeAll(w io.Writer, name string) {
	fmt.Fprintf(w, "%s: %d calls, %s\n", name, c.slowCalls+c.otherCalls, text.Duration(c.slow.total+c.others.total))
	if c.otherCalls == 0 {
		fmt.Fprintf(w, "# no others to compare with\n")
	}
	fmt.Fprintf(w, "%9s %9s %9s\n", "slow", "others", "more")
	fmt.Fprintf(w, "%9d %9d %9s  calls\n", c.slowCalls, c.otherCalls, "")
	all := c.difference(name, c.slow.total, c.others.total)
	all.write(w, "")
	least := max(all.more(), int64(all.slow)/100, 100) * leastMore / 100
	left := difference{what: "other parts"}
	for i, d := range c.rows() {
		if i < mostRows && max(d.more(), -d.more()) >= least {
			d.write(w, "")
			d.writeWakers(w, "  ", least)
		} else {
			left.slow, left.others = left.slow+d.slow, left.others+d.others
		}
	}
	if left.slow+left.others > 0 {
		left.write(w, "")
	}
	inside := compared(c, c.slow.inside, c.others.inside, func(what string, d *difference) { d.what = what })
	for _, d := range inside[:min(leastCalls, len(inside))] {
		d.write(w, "of it in ")
	}
	c.writeIncidents(w)
}

// writeIncidents writes how many incidents of packets there were in a call, on average.
func (c *comparison) writeIncidents(w io.Writer) {
	all := maps.Clone(c.slow.incidents)
	maps.Copy(all, c.others.incidents)
	for _, what := range slices.Sorted(maps.Keys(all)) {
		slow := float64(sumOf(c.slow.incidents[what])) / float64(max(c.slowCalls, 1))
		others := float64(sumOf(c.others.incidents[what])) / float64(max(c.otherCalls, 1))
		fmt.Fprintf(w, "%8.2fx %8.2fx %8.2fx  meanwhile: %s\n", slow, others, slow-others, what)
	}
}

func sumOf(m map[string]uint64) (sum uint64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

// writeWakers writes what is longer in the wakers of slow calls' waits, and in their wakers.
func (d *difference) writeWakers(w io.Writer, indent string, least int64) {
	if d.wakers == nil {
		return
	}
	for _, by := range d.wakers.rows() {
		if by.more() >= least {
			by.write(w, indent+d.comm+": ")
			by.writeWakers(w, indent+"  ", least)
		}
	}
}

func (c *comparison) difference(what string, slow, others uint64) difference {
	return difference{what: what, slow: slow / max(c.slowCalls, 1), others: others / max(c.otherCalls, 1)}
}

// rows returns waits and functions, which sum up to the whole time. Those that are longer in slow calls by most come
// first.
func (c *comparison) rows() []difference {
	rows := compared(c, c.slow.waits, c.others.waits, c.nameWait)
	rows = append(rows, compared(c, c.slow.ran, c.others.ran, func(function int32, d *difference) {
		d.what = ranText(c.did, function)
	})...)
	sortDifferences(rows)
	return rows
}

// nameWait sets what a wait is for, and who ended it: in slow calls, if there are such waits.
func (c *comparison) nameWait(what int32, d *difference) {
	of := c.slow
	if of.waits[what] == 0 {
		of = c.others
	}
	d.what = of.text(c.did, what)
	k, _ := of.who(c.did, what)
	if of = c.slow.wakers[k]; of == nil {
		return
	}
	others := c.others.wakers[k]
	if others == nil {
		others = newParts()
	}
	d.comm, d.wakers = c.did.comms[k.by], &comparison{c.did, of, others, c.slowCalls, c.otherCalls}
}

// compared compares sums, which name describes.
func compared[K comparable](c *comparison, slow, others map[K]uint64, name func(K, *difference)) (l []difference) {
	all := maps.Clone(slow)
	maps.Copy(all, others)
	for what := range all {
		d := c.difference("", slow[what], others[what])
		name(what, &d)
		l = append(l, d)
	}
	sortDifferences(l)
	return l
}

func sortDifferences(l []difference) {
	slices.SortFunc(l, func(a, b difference) int {
		return cmp.Or(cmp.Compare(b.more(), a.more()), cmp.Compare(a.what, b.what))
	})
}
