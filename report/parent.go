package report

import (
	"regexp"
	"strings"

	"gperf/symbolize"
)

// DefaultParent is perf's: entries of the kernel.
const DefaultParent = "^sys_|^do_page_fault"

// parents says which functions match: the parent is the first of a callchain.
type parents struct {
	match *regexp.Regexp
	known map[*symbolize.Symbol]bool
}

func newParents(match *regexp.Regexp) *parents {
	if match == nil {
		match = regexp.MustCompile(DefaultParent)
	}
	return &parents{match, map[*symbolize.Symbol]bool{}}
}

// is reports whether a function, nil for none, may be the parent of entries.
func (p *parents) is(sym *symbolize.Symbol) bool {
	if sym == nil {
		return false
	}
	is, ok := p.known[sym]
	if !ok {
		is = p.match.MatchString(sym.Name)
		p.known[sym] = is
	}
	return is
}

func compareParent(_ *Hist, a, b *Entry) int {
	if a.parent == nil || b.parent == nil {
		return compareBool(a.parent != nil, b.parent != nil)
	}
	return strings.Compare(b.parent.Name, a.parent.Name)
}

func parentWidth(_ *Hist, e *Entry) int {
	if e.parent == nil {
		return 0
	}
	return len(e.parent.Name)
}

func appendParent(_ *Hist, b []byte, e *Entry, width int) []byte {
	if e.parent == nil {
		return appendLeft(b, "[other]", width)
	}
	return appendLeft(b, e.parent.Name, width)
}
