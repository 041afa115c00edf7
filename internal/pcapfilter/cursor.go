package pcapfilter

import (
	"fmt"
	"slices"

	"gperf/internal/suggest"
)

// cursor reads tokens. The first error moves it to the end, where all functions that read
// tokens return.
type cursor struct {
	expr   string
	tokens []token
	next   int
	depth  int
	err    *Error
}

func (c *cursor) peek() token { return c.tokens[c.next] }

// take returns the next token, and moves on unless it is the end.
func (c *cursor) take() token {
	t := c.tokens[c.next]
	if t.kind != tokenEnd {
		c.next++
	}
	return t
}

// accept moves on if the next token is an operator or a keyword.
func (c *cursor) accept(text string) bool {
	t := c.peek()
	if (t.kind == tokenOperator || t.kind == tokenWord) && t.text == text {
		c.next++
		return true
	}
	return false
}

func (c *cursor) acceptAny(texts ...string) (string, bool) {
	i := slices.IndexFunc(texts, c.accept)
	if i < 0 {
		return "", false
	}
	return texts[i], true
}

func (c *cursor) expect(text string) {
	if !c.accept(text) {
		c.fail(c.peek(), "expected %q", text)
	}
}

// fail records the first error.
func (c *cursor) fail(t token, format string, args ...any) *cond {
	if c.err == nil {
		c.err = &Error{Expr: c.expr, Pos: t.pos, Msg: fmt.Sprintf(format, args...)}
	}
	c.next = len(c.tokens) - 1
	return always(false)
}

// failNear records an error with the names that are similar to a wrong one.
func (c *cursor) failNear(t token, name string, names []string, format string, args ...any) *cond {
	first := c.err == nil
	failed := c.fail(t, format, args...)
	if first {
		c.err.Near = suggest.Names(name, names)
	}
	return failed
}

// unexpected records an error for a token in the wrong place.
func (c *cursor) unexpected(t token) *cond {
	reason, refused := unsupported[t.text]
	switch {
	case t.kind == tokenEnd:
		return c.fail(t, "the expression is incomplete")
	case t.kind != tokenWord || isKeyword(t.text) && !refused:
		return c.fail(t, "unexpected %q", t.text)
	case refused:
		return c.fail(t, "%q is not supported: %s", t.text, reason)
	case ipProtocols()[t.text] != nil:
		return c.fail(t, `unknown word %q: write "proto %[1]s"`, t.text)
	}
	return c.failNear(t, t.text, allWords(), "unknown word %q", t.text)
}

// enter counts the nesting; every call needs a call of leave.
func (c *cursor) enter() {
	if c.depth++; c.depth > maxDepth {
		c.fail(c.peek(), "the expression is nested too deeply")
	}
}

func (c *cursor) leave() { c.depth-- }

// startsNumber reports whether arithmetic begins here.
func (c *cursor) startsNumber() bool {
	t := c.peek()
	switch t.kind {
	case tokenNumber:
		return true
	case tokenOperator:
		return t.text == "-"
	case tokenWord:
		_, isConstant := constants[t.text]
		after := c.tokens[c.next+1]
		return t.text == "len" || t.text == "length" || isConstant || isProtocolWord(t.text) && after.text == "["
	}
	return false
}

// startsItem reports whether an item of a list begins here: an address, a number or a name.
func (c *cursor) startsItem() bool {
	switch t := c.peek(); t.kind {
	case tokenEnd, tokenOperator:
		return false
	case tokenWord:
		return !isKeyword(t.text)
	}
	return true
}

func isProtocolWord(word string) bool {
	_, ok := protocols[word]
	return ok || word == "ether" || word == "link"
}

// number parses a number, perhaps in parentheses.
func (c *cursor) number() uint32 {
	c.enter()
	defer c.leave()
	if c.accept("(") {
		n := c.number()
		c.expect(")")
		return n
	}
	t := c.take()
	if t.kind != tokenNumber {
		c.fail(t, "expected a number")
	}
	return t.number
}

// optionalNumber parses a number if there is one, of at most limit.
func (c *cursor) optionalNumber(limit uint32, name string) (n uint32, ok bool) {
	t := c.peek()
	if t.kind != tokenNumber && !(t.text == "(" && c.tokens[c.next+1].kind == tokenNumber) {
		return 0, false
	}
	if n = c.number(); n > limit {
		c.fail(t, "%s %d is larger than %d", name, n, limit)
	}
	return n, true
}
