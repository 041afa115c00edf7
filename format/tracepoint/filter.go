package tracepoint

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Filter is the expression of a filter: comparisons of a field with a value, &&, ||, ! and parentheses
// (Documentation/trace/events.rst).
type Filter struct {
	// Op is "&&", "||" or "!", or of a comparison "==", "!=", "<", "<=", ">", ">=", "&", "~".
	Op          string
	Left, Right *Filter // the operands; "!" has Left only

	Field   FilterWord // of a comparison
	Special string     // syntax that only the kernel's filters support: ".function", "CPUS{0-3}"
	Value   FilterWord // that the field is compared with
}

// FilterWord is a word of a filter.
type FilterWord struct {
	Text    string // without quotes
	At, End int    // in the filter's text, in bytes, with quotes
}

// Wrong returns the error of a word of a filter.
func (w FilterWord) Wrong(filter, format string, args ...any) *FilterError {
	return &FilterError{Filter: filter, At: w.At, End: w.End, Msg: fmt.Sprintf(format, args...)}
}

// CheckOperator returns why a comparison's operator cannot compare a text, or a number; nil if it can.
func (f *Filter) CheckOperator(filter string, isText bool) error {
	name := f.Field.Text
	switch {
	case isText && f.Op != "==" && f.Op != "!=" && f.Op != "~":
		return f.Field.Wrong(filter, "%s is text, which %s cannot compare: there are == != and ~, a glob", name, f.Op)
	case !isText && f.Op == "~":
		return f.Field.Wrong(filter, "%s is a number, which ~ cannot compare: there are == != < <= > >= &", name)
	}
	return nil
}

// FilterError means that a filter is wrong, and why.
type FilterError struct {
	Filter  string
	At, End int    // the wrong word
	Msg     string // in one line
	More    string // lines that follow, "" for none
}

// Error implements error. The second and third line point at the wrong word.
func (e *FilterError) Error() string {
	line := strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, e.Filter)
	before := utf8.RuneCountInString(e.Filter[:e.At])
	marks := max(1, utf8.RuneCountInString(e.Filter[e.At:e.End]))
	text := fmt.Sprintf("%s\n  %s\n  %s%s", e.Msg, line, strings.Repeat(" ", before), strings.Repeat("^", marks))
	if e.More != "" {
		text += "\n" + e.More
	}
	return text
}

// WrongUse reports that the command line caused the error.
func (e *FilterError) WrongUse() bool { return true }

var (
	filterWord     = regexp.MustCompile(`^\w+`)
	filterFunction = regexp.MustCompile(`^\.\w+`)
	filterOp       = regexp.MustCompile(`^(==|!=|<=|>=|<|>|&|~)`)
	filterValue    = regexp.MustCompile(`^("[^"]*"|'[^']*'|CPUS\{[^}]*\}|[^\s&|()"']+)`)
)

// ParseFilter parses a filter in the kernel's language. It does not know the fields. The error is a *FilterError.
func ParseFilter(text string) (*Filter, error) {
	p := filterParser{text: text, rest: text}
	f, err := p.either()
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(p.rest, ")"):
		return nil, p.wrong(1, "a ) has no (")
	case p.rest != "":
		return nil, p.unjoined()
	}
	return f, nil
}

type filterParser struct {
	text, rest string
	depth      int
}

// maxFilterDepth limits nested parentheses.
const maxFilterDepth = 100

// at returns the position of the rest.
func (p *filterParser) at() int { return len(p.text) - len(p.rest) }

// wrong returns the error of the next n bytes.
func (p *filterParser) wrong(n int, format string, args ...any) error {
	return &FilterError{Filter: p.text, At: p.at(), End: p.at() + n, Msg: fmt.Sprintf(format, args...)}
}

// unjoined returns the error of an expression that follows another one without an operator.
func (p *filterParser) unjoined() error {
	return p.wrong(len(p.rest), "&& or || is missing before %q", p.rest)
}

func (p *filterParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n") }

// take consumes a word at the beginning.
func (p *filterParser) take(word string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, word)
	if ok {
		p.rest = rest
		p.space()
	}
	return ok
}

// match consumes a match of a pattern, "" if there is none.
func (p *filterParser) match(re *regexp.Regexp) string { return p.word(re).Text }

// word consumes a match of a pattern, with its quotes, empty if there is none.
func (p *filterParser) word(re *regexp.Regexp) FilterWord {
	p.space()
	w := FilterWord{Text: re.FindString(p.rest), At: p.at()}
	w.End = w.At + len(w.Text)
	p.rest = p.text[w.End:]
	return w
}

// either parses operands of ||, which has lower precedence than &&.
func (p *filterParser) either() (*Filter, error) { return p.operands("||", p.both) }
func (p *filterParser) both() (*Filter, error)   { return p.operands("&&", p.operand) }

func (p *filterParser) operands(op string, operand func() (*Filter, error)) (*Filter, error) {
	left, err := operand()
	for err == nil && p.take(op) {
		var right *Filter
		right, err = operand()
		left = &Filter{Op: op, Left: left, Right: right}
	}
	p.space()
	return left, err
}

// operand parses a comparison, or an expression in parentheses.
func (p *filterParser) operand() (*Filter, error) {
	if p.depth++; p.depth > maxFilterDepth {
		return nil, p.wrong(0, "more than %d nested parentheses", maxFilterDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("!"):
		f, err := p.operand()
		return &Filter{Op: "!", Left: f}, err
	case p.take("("):
		return p.parenthesized()
	}
	return p.comparison()
}

// parenthesized parses an expression, and the parenthesis after it.
func (p *filterParser) parenthesized() (*Filter, error) {
	at := p.rest
	f, err := p.either()
	switch {
	case err != nil:
		return nil, err
	case p.take(")"):
		return f, nil
	case p.rest != "":
		return nil, p.unjoined()
	}
	p.rest = at
	return nil, p.wrong(len(at), "a ( has no )")
}

// comparison parses FIELD OP VALUE.
func (p *filterParser) comparison() (*Filter, error) {
	f := &Filter{Field: p.word(filterWord)}
	if f.Field.Text == "" {
		if p.rest == "" {
			return nil, p.wrong(0, "a comparison (FIELD == VALUE) is missing at the end")
		}
		return nil, p.wrong(len(p.rest), "a comparison (FIELD == VALUE) is missing before %q", p.rest)
	}
	f.Special = p.match(filterFunction)
	if f.Op = p.match(filterOp); f.Op == "" {
		return nil, p.wrong(0, "a comparison is missing after %s: there are == != < <= > >= &, and for text == != ~",
			f.Field.Text)
	}
	f.Value = p.word(filterValue)
	switch v := f.Value.Text; {
	case v == "":
		return nil, p.wrong(0, "a value is missing after %s %s", f.Field.Text, f.Op)
	case v[0] == '"' || v[0] == '\'':
		f.Value.Text = v[1 : len(v)-1]
	case strings.HasPrefix(v, "CPUS{"):
		f.Special = v
	}
	return f, nil
}

// Units of numbers: ns for times, bytes for sizes.
var filterUnits = map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
	"B": 1, "K": 1 << 10, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}

var (
	filterNumber = regexp.MustCompile(`^-?(0[xX][0-9a-fA-F]+|[0-9]+)$`)
	filterAmount = regexp.MustCompile(`^(-?[0-9]+(?:\.[0-9]+)?)([a-zA-Z]+)$`)
)

// HasUnit reports whether a word that is a number has a unit.
func (w FilterWord) HasUnit() bool { return !filterNumber.MatchString(w.Text) }

// Number returns the word as a number, negative ones as the number of 64 bits that equals them: a decimal or
// hexadecimal number, or one with a unit, 10ms, as ns or bytes. ok means that it is a number; the error is that it
// does not fit into 64 bits.
func (w FilterWord) Number() (n uint64, ok bool, err error) {
	if filterNumber.MatchString(w.Text) {
		if w.Text[0] == '-' {
			var i int64
			i, err = strconv.ParseInt(w.Text, 0, 64)
			n = uint64(i)
		} else {
			n, err = strconv.ParseUint(w.Text, 0, 64)
		}
		if err != nil {
			err = fmt.Errorf("%s is not a number of 64 bits", w.Text)
		}
		return n, true, err
	}
	m := filterAmount.FindStringSubmatch(w.Text)
	if m == nil || filterUnits[m[2]] == 0 {
		return 0, false, nil
	}
	x, _ := strconv.ParseFloat(m[1], 64)
	if x *= filterUnits[m[2]]; math.Abs(x) >= 1<<63 {
		return 0, true, fmt.Errorf("%s is not a number of 64 bits", w.Text)
	}
	return uint64(int64(math.Round(x))), true, nil
}
