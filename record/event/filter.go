package event

import (
	"fmt"
	"regexp"
	"strings"

	"gperf/record/near"
)

// Field is a field that a filter can compare.
type Field struct {
	Name string
	Text bool
}

// genericFields are those that every event has beside those of its format
// (trace_define_generic_fields of the kernel).
var genericFields = []Field{{"CPU", false}, {"cpu", false}, {"COMM", true}, {"comm", true}, {"stacktrace", false}, {"STACKTRACE", false}}

var (
	filterWord     = regexp.MustCompile(`^\w+`)
	filterFunction = regexp.MustCompile(`^\.\w+`)
	filterOp       = regexp.MustCompile(`^(==|!=|<=|>=|<|>|&|~)`)
	filterNumber   = regexp.MustCompile(`^-?(0[xX][0-9a-fA-F]+|[0-9]+)$`)
	filterValue    = regexp.MustCompile(`^("[^"]*"|'[^']*'|CPUS\{[^}]*\}|[^\s&|()"']+)`)
)

// CheckFilter says what is wrong with a filter that the kernel refused, in whose
// language there are comparisons of a field with a value, &&, ||, ! and parentheses
// (Documentation/trace/events.rst). It returns "" where it finds nothing wrong.
func CheckFilter(filter string, fields []Field) string {
	c := filterChecker{rest: filter, fields: append(fields[:len(fields):len(fields)], genericFields...)}
	open := 0
	for {
		for c.take("!") || c.take("(") {
			if c.taken == "(" {
				open++
			}
		}
		if why := c.comparison(); why != "" {
			return why
		}
		for c.take(")") {
			if open--; open < 0 {
				return "a ) has no ("
			}
		}
		switch {
		case c.rest == "" && open > 0:
			return "a ( has no )"
		case c.rest == "":
			return ""
		case !c.take("&&") && !c.take("||"):
			return fmt.Sprintf("&& or || is missing ahead of %q", c.rest)
		}
	}
}

type filterChecker struct {
	rest, taken string
	fields      []Field
}

func (c *filterChecker) space() { c.rest = strings.TrimLeft(c.rest, " \t\n") }

// take takes a word off the beginning.
func (c *filterChecker) take(word string) bool {
	c.space()
	rest, ok := strings.CutPrefix(c.rest, word)
	if ok {
		c.rest, c.taken = rest, word
		c.space()
	}
	return ok
}

// match takes off what a pattern matches, "" if it does not.
func (c *filterChecker) match(re *regexp.Regexp) string {
	c.space()
	m := re.FindString(c.rest)
	c.rest = c.rest[len(m):]
	return m
}

// comparison takes FIELD OP VALUE off the beginning.
func (c *filterChecker) comparison() string {
	name := c.match(filterWord)
	if name == "" {
		if c.rest == "" {
			return "a comparison (FIELD == VALUE) is missing at the end"
		}
		return fmt.Sprintf("a comparison (FIELD == VALUE) is missing ahead of %q", c.rest)
	}
	f, ok := c.field(name)
	if !ok {
		return c.unknown(name)
	}
	function := c.match(filterFunction)
	text := f.Text || function == ".ustring"
	op := c.match(filterOp)
	switch {
	case op == "":
		return fmt.Sprintf("a comparison is missing behind %s: there are == != < <= > >= &, and for text == != ~", name)
	case text && op != "==" && op != "!=" && op != "~":
		return fmt.Sprintf("%s is text, which %s cannot compare: there are == != and ~, a glob", name, op)
	case !text && op == "~":
		return fmt.Sprintf("%s is a number, which ~ cannot compare: there are == != < <= > >= &", name)
	}
	value := c.match(filterValue)
	switch {
	case value == "":
		return fmt.Sprintf("a value is missing behind %s %s", name, op)
	case !text && function == "" && !filterNumber.MatchString(value) && !strings.HasPrefix(value, "CPUS{"):
		return fmt.Sprintf("%s is a number, and %s is none", name, value)
	}
	return ""
}

func (c *filterChecker) field(name string) (Field, bool) {
	for _, f := range c.fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

func (c *filterChecker) unknown(name string) string {
	var names []string
	for _, f := range c.fields[:len(c.fields)-len(genericFields)] {
		names = append(names, f.Name)
	}
	s := "there is no field " + name
	if l := near.Names(name, names); len(l) > 0 {
		s += ": did you mean " + strings.Join(l, ", ") + "?"
	}
	return s + "\nIts fields are: " + strings.Join(names, " ")
}
