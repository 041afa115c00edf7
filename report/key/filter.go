package key

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/session"
	"gperf/internal/suggest"
	"gperf/symbolize"
)

// Stack is the key of all functions of a sample's stack, which filters alone know: a comparison is true if it is true
// for one of them.
const Stack = "stack"

// Filter selects the samples of a recording for which an expression is true: comparisons of keys with values, with the
// operators of tracepoint.Filter. A comparison is false for samples that lack the key.
type Filter struct {
	text   string
	tests  []test // by event
	parts  []*part
	words  []string // the keys that it compares
	frames bool
	// impossible has, by comparison, why no event of the recording can meet it, nil if one can.
	impossible []error

	mu      sync.Mutex
	matched bool
	samples int // that did not match before one did
}

// test reports whether an expression is true for a sample.
type test func(s *session.Sample) bool

// part is a comparison.
type part struct {
	text string // as the user wrote it
	met  bool   // by a sample
	// seen counts the texts that samples had instead, while no sample matched the filter.
	seen map[string]int
}

// maxSeen is how many texts a comparison remembers, with their results, and of samples for which it is false.
const maxSeen = 1000

// NewFilter returns the filter of an expression. A comparison that no event of the recording can meet is false: see
// Filter.Impossible. The error, a *tracepoint.FilterError, means that the expression is wrong for all recordings.
func NewFilter(f *format.File, sym *symbolize.Symbolizer, text string, o session.Origin) (*Filter, error) {
	tree, err := tracepoint.ParseFilter(text)
	if err != nil {
		return nil, err
	}
	p := newParser(f, sym, UsualQuantum)
	p.origin = o
	c := compiler{parser: p, filter: &Filter{text: text}}
	if c.filter.tests, err = c.compile(tree); err != nil {
		return nil, err
	}
	return c.filter, nil
}

// Impossible returns, by comparison, why no event of the recording can meet it: the key or the value is unknown. It is
// nil for the others.
func (f *Filter) Impossible() []error { return f.impossible }

// FirstImpossible returns why the first comparison is impossible in all recordings, nil if each is possible in one. A
// list is the result of Filter.Impossible for a recording.
func FirstImpossible(lists ...[]error) error {
	for i := range lists[0] {
		if !slices.ContainsFunc(lists, func(l []error) bool { return l[i] == nil }) {
			return lists[0][i]
		}
	}
	return nil
}

// Compares reports whether the filter compares a key.
func (f *Filter) Compares(word string) bool { return f != nil && slices.Contains(f.words, word) }

// NeedsFrames reports whether the filter compares functions: Match must be called once the frames are resolved.
func (f *Filter) NeedsFrames() bool { return f.frames }

// Match reports whether the expression is true for a sample. Several sessions of the recording may call it.
func (f *Filter) Match(s *session.Sample) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := f.tests[s.Event](s)
	f.matched = f.matched || is
	if !f.matched {
		f.samples++
	}
	return is
}

// Misses returns the comparisons that no sample met, if the filter selected none of the samples that it was asked
// about; nothing if it selected one.
func (f *Filter) Misses() (l []session.Miss) {
	if f == nil || f.matched || f.samples == 0 {
		return nil
	}
	for _, p := range f.parts {
		if p.met || len(p.seen) == 0 {
			continue
		}
		l = append(l, session.Miss{Flag: "--filter " + p.text, Have: session.MostFrequent(p.seen)})
	}
	if l == nil {
		l = []session.Miss{{Flag: "--filter " + f.text}}
	}
	return l
}

// compiler makes the tests of a filter.
type compiler struct {
	*parser
	filter *Filter
}

// compile returns the tests of an expression, one per event.
func (c *compiler) compile(n *tracepoint.Filter) ([]test, error) {
	switch n.Op {
	case "!":
		of, err := c.compile(n.Left)
		for i, t := range of {
			of[i] = func(s *session.Sample) bool { return !t(s) }
		}
		return of, err
	case "&&", "||":
		return c.join(n)
	}
	if n.Special != "" {
		return nil, n.Field.Wrong(c.filter.text, "only filters of the kernel can compare %s%s", n.Field.Text, n.Special)
	}
	if n.Field.Text == Stack {
		return c.stack(n)
	}
	return c.comparison(n)
}

func (c *compiler) join(n *tracepoint.Filter) ([]test, error) {
	left, err := c.compile(n.Left)
	if err != nil {
		return nil, err
	}
	right, err := c.compile(n.Right)
	for i := range right {
		a, b := left[i], right[i]
		if n.Op == "&&" {
			left[i] = func(s *session.Sample) bool { return a(s) && b(s) }
		} else {
			left[i] = func(s *session.Sample) bool { return a(s) || b(s) }
		}
	}
	return left, err
}

// comparison returns the tests of a comparison. Keys of the same name may differ between events: the comparison is
// possible if it is for one of them.
func (c *compiler) comparison(n *tracepoint.Filter) ([]test, error) {
	c.filter.words = append(c.filter.words, n.Field.Text)
	readers, err := c.parse(n.Field.Text)
	if err != nil {
		c.filter.impossible = append(c.filter.impossible, c.unknown(n.Field, err.(*KeyError)))
		return slices.Repeat([]test{never}, len(c.file.Attrs)), nil
	}
	part := c.part(n)
	tests, possible := make([]test, len(readers)), false
	var problem error
	for i := range readers {
		r := &readers[i]
		tests[i] = never
		if r.absent {
			continue
		}
		t, wrong := c.test(n, r)
		if wrong != nil {
			problem = wrong
			continue
		}
		possible = true
		c.filter.frames = c.filter.frames || r.leaf
		tests[i] = c.noting(part, t, r)
	}
	if possible {
		problem = nil
	}
	c.filter.impossible = append(c.filter.impossible, problem)
	return tests, nil
}

// part adds a comparison to the filter's parts.
func (c *compiler) part(n *tracepoint.Filter) *part {
	p := &part{text: c.filter.text[n.Field.At:n.Value.End], seen: map[string]int{}}
	c.filter.parts = append(c.filter.parts, p)
	return p
}

// noting returns a test that notes, while no sample matched the filter, why it is false.
func (c *compiler) noting(p *part, t test, r *reader) test {
	f := c.filter
	return func(s *session.Sample) bool {
		is := t(s)
		if p.met = p.met || is; p.met || f.matched {
			return is
		}
		text := r.text(s)
		if _, known := p.seen[text]; known || len(p.seen) < maxSeen {
			p.seen[text]++
		}
		return false
	}
}

func never(*session.Sample) bool { return false }

func (c *compiler) unknown(w tracepoint.FilterWord, e *KeyError) error {
	err := w.Wrong(c.filter.text, "%v", e)
	keys := append(slices.Clone(e.Keys), Stack)
	if l := suggest.Names(e.Key, keys); len(l) > 0 {
		err.Msg += suggest.DidYouMean(l)
	} else {
		err.More = "the keys are " + strings.Join(keys, ", ")
	}
	return err
}

// test returns the test of a comparison of one event's key.
func (c *compiler) test(n *tracepoint.Filter, r *reader) (test, error) {
	if r.number != nil && n.Op != "~" {
		number, ok, err := r.numberOf(n.Value)
		if err != nil {
			return nil, n.Value.Wrong(c.filter.text, "%v", err)
		}
		if ok {
			return r.among(r.compareNumber(n.Op, number, r.isNegative(n.Value, number))), nil
		}
	}
	if err := c.checkText(n, r); err != nil {
		return nil, err
	}
	match, err := matcher(n.Op, n.Value.Text)
	if err != nil {
		return nil, n.Value.Wrong(c.filter.text, "%q is no glob: %v", n.Value.Text, err)
	}
	return r.compareText(match), nil
}

// checkText returns why a key cannot be compared as text, nil if it can.
func (c *compiler) checkText(n *tracepoint.Filter, r *reader) error {
	name, value := n.Field.Text, n.Value.Text
	plain := r.number != nil && r.names == nil && !r.code && r.printed == nil
	if err := n.CheckOperator(c.filter.text, !plain); err != nil {
		return err
	}
	switch {
	case plain:
		return n.Value.Wrong(c.filter.text, "%s is a number, but %s is not", name, value)
	case n.Op == "~":
		return nil
	}
	var texts []string
	if r.texts != nil {
		texts = r.texts()
	} else if r.names != nil && !r.code {
		texts = r.names.All()
	}
	if texts == nil || slices.Contains(texts, value) {
		return nil
	}
	slices.Sort(texts)
	texts = slices.Compact(texts) // 64-bit and 32-bit system calls have the same names
	err := n.Value.Wrong(c.filter.text, "%s has no value %s", name, value)
	if l := suggest.Names(value, texts); len(l) > 0 {
		err.Msg += suggest.DidYouMean(l)
	} else if len(texts) <= maxChoices {
		err.More = "its values are " + strings.Join(texts, ", ")
	}
	return err
}

// maxChoices is the number of values that an error lists.
const maxChoices = 100

// numberOf returns the number that a word means for a key: a number, a name of one, or names of bits, SYN|ACK. ok
// means that it is one.
func (r *reader) numberOf(w tracepoint.FilterWord) (n uint64, ok bool, err error) {
	if r.seconds {
		if x, err := strconv.ParseFloat(w.Text, 64); err == nil && x >= 0 && x < math.MaxInt64/1e9 {
			return uint64(math.Round(x * 1e9)), true, nil
		}
	}
	if n, ok, err := w.Number(); ok || r.names == nil {
		return n, ok, err
	}
	for name := range strings.SplitSeq(w.Text, "|") {
		v, known := r.names[name]
		if !known {
			return 0, false, nil
		}
		n |= uint64(v)
	}
	return n, true, nil
}

// isNegative reports whether a word, which means a number of numberOf, is a number below 0.
func (r *reader) isNegative(w tracepoint.FilterWord, n uint64) bool {
	_, digits, _ := w.Number()
	return int64(n) < 0 && (!digits || strings.HasPrefix(w.Text, "-"))
}

// compareNumber returns the test of a key's number. A number of the other sign is above, or below, all numbers that the
// key can have, but equal numbers only have equal bits: 0xffffffffffffffff is -1.
func (r *reader) compareNumber(op string, with uint64, negative bool) test {
	get := r.number
	order := func(v int64) int { return cmp.Compare(v, int64(with)) }
	switch {
	case r.Unsigned && negative:
		order = func(int64) int { return 1 }
	case r.Unsigned:
		order = func(v int64) int { return cmp.Compare(uint64(v), with) }
	case int64(with) < 0 && !negative:
		order = func(int64) int { return -1 }
	}
	switch op {
	case "==":
		return func(s *session.Sample) bool { return uint64(get(s)) == with }
	case "!=":
		return func(s *session.Sample) bool { return uint64(get(s)) != with }
	case "<":
		return func(s *session.Sample) bool { return order(get(s)) < 0 }
	case "<=":
		return func(s *session.Sample) bool { return order(get(s)) <= 0 }
	case ">":
		return func(s *session.Sample) bool { return order(get(s)) > 0 }
	case ">=":
		return func(s *session.Sample) bool { return order(get(s)) >= 0 }
	}
	return func(s *session.Sample) bool { return uint64(get(s))&with != 0 }
}

// among returns a test for the samples that have the key.
func (r *reader) among(t test) test {
	if r.has == nil {
		return t
	}
	return func(s *session.Sample) bool { return r.has(s) && t(s) }
}

// text returns the text that filters compare.
func (r *reader) text(s *session.Sample) string {
	if r.printed != nil {
		return r.printed(s)
	}
	return r.value(s).Text
}

// matcher returns how an operator compares a text.
func matcher(op, with string) (func(text string) bool, error) {
	switch op {
	case "==":
		return func(text string) bool { return text == with }, nil
	case "!=":
		return func(text string) bool { return text != with }, nil
	}
	glob := slashless(with)
	if _, err := path.Match(glob, ""); err != nil {
		return nil, err
	}
	return func(text string) bool {
		is, _ := path.Match(glob, slashless(text))
		return is
	}, nil
}

// slashless replaces slashes, which wildcards of path.Match do not match, unlike wildcards of the kernel.
func slashless(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

// compareText returns the test of a key's text. It remembers results.
func (r *reader) compareText(match func(text string) bool) test {
	results := map[string]bool{}
	var id []byte
	return func(s *session.Sample) bool {
		id = r.appendID(id[:0], s)
		is, known := results[string(id)]
		if !known {
			text := r.text(s)
			if is = text != Missing && match(text); len(results) >= maxSeen {
				clear(results)
			}
			results[string(id)] = is
		}
		return is
	}
}

// stack returns the tests of a comparison with the functions of stacks.
func (c *compiler) stack(n *tracepoint.Filter) ([]test, error) {
	if err := n.CheckOperator(c.filter.text, true); err != nil {
		return nil, err
	}
	match, err := matcher(strings.Replace(n.Op, "!=", "==", 1), n.Value.Text)
	if err != nil {
		return nil, n.Value.Wrong(c.filter.text, "%q is no glob: %v", n.Value.Text, err)
	}
	c.filter.frames = true
	known := map[*session.Frame]bool{}
	has := func(s *session.Sample) bool {
		for f := range s.Stack(math.MaxInt) {
			is, ok := known[f]
			if !ok {
				is = match(f.Symbol())
				if f.ID >= 0 { // others are not shared
					known[f] = is
				}
			}
			if is {
				return n.Op != "!="
			}
		}
		return n.Op == "!="
	}
	return slices.Repeat([]test{has}, len(c.file.Attrs)), nil
}
