package probe

import (
	"fmt"
	"path"
	"strings"
)

// NameFilter selects names, by globs combined with ! & | and brackets: perf probe's FILTER.
type NameFilter func(name string) bool

// ParseNameFilter parses a filter.
func ParseNameFilter(s string) (NameFilter, error) {
	p := filterParser{rest: s}
	f, err := p.or()
	if err == nil && p.next() != 0 {
		err = fmt.Errorf("%q is more than one filter", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", s, err)
	}
	return f, nil
}

type filterParser struct{ rest string }

// next returns the first byte of the rest, 0 at the end.
func (p *filterParser) next() byte {
	if p.rest = strings.TrimLeft(p.rest, " \t"); p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *filterParser) or() (NameFilter, error) {
	return p.join('|', p.and, func(a, b NameFilter) NameFilter { return func(n string) bool { return a(n) || b(n) } })
}

func (p *filterParser) and() (NameFilter, error) {
	return p.join('&', p.one, func(a, b NameFilter) NameFilter { return func(n string) bool { return a(n) && b(n) } })
}

func (p *filterParser) join(op byte, part func() (NameFilter, error),
	both func(a, b NameFilter) NameFilter) (NameFilter, error) {
	f, err := part()
	for err == nil && p.next() == op {
		p.rest = p.rest[1:]
		var g NameFilter
		if g, err = part(); err == nil {
			f = both(f, g)
		}
	}
	return f, err
}

func (p *filterParser) one() (NameFilter, error) {
	switch p.next() {
	case '!':
		p.rest = p.rest[1:]
		f, err := p.one()
		return func(n string) bool { return !f(n) }, err
	case '(':
		p.rest = p.rest[1:]
		f, err := p.or()
		if err == nil && p.next() != ')' {
			err = fmt.Errorf("a bracket is not closed")
		}
		p.rest = strings.TrimPrefix(p.rest, ")")
		return f, err
	}
	n := strings.IndexAny(p.rest, "!&|() \t")
	if n < 0 {
		n = len(p.rest)
	}
	glob := p.rest[:n]
	p.rest = p.rest[n:]
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		return nil, fmt.Errorf("a pattern is expected at %q", glob+p.rest)
	}
	return func(name string) bool {
		ok, _ := path.Match(glob, strings.ReplaceAll(name, "/", "_"))
		return ok
	}, nil
}
