package tracepoint

import (
	"errors"
	"strconv"
	"strings"
)

// parser reads the C of a print fmt into nodes.
//
// It groups operators like libtraceevent, which differs from C both with and without parentheses:
//
//   - The left side of an operator is the complete tree before it if the operator binds more loosely than the tree's
//     top operator, otherwise only that tree's right side. The parser never returns to an outer tree:
//     a + b * c | d is a + ((b * c) | d), and operators of equal priority group to the right: a - b - c is a - (b - c).
//   - If the right side binds more loosely than the operator before it, the parser takes its left operand away, even if
//     the right side is in parentheses: a * (b + c) is (a * b) + c.
//   - The last part of ? : is one operand; operators after it apply to the complete expression.
//   - A name in parentheses is a cast only before a name, a literal or another parenthesis: (u64)-x is u64 - x, and
//     unknown names are 0.
//   - An index is one operand.
type parser struct {
	lexer
	f     *Format
	depth int
}

// maxDepth limits the nesting of expressions; kernels need about ten.
const maxDepth = 1000

// node is an expression.
type node struct {
	kind  nodeKind
	op    op
	prio  int8
	text  string // of an atom: the source; of a cast: the type
	val   uint64 // of an atom: its number; of a cast: the mask
	field *Field // the operand of REC->, __get_str and similar; nil if unknown
	args  [3]*node
	syms  []symbol
	delim string // __print_flags
}

// nodeKind has libtraceevent's values: for an operand of the wrong kind, libtraceevent prints the number.
type nodeKind uint8

const (
	nodeNull       nodeKind = iota
	nodeAtom                // a number, a name, a string
	nodeField               // REC->field
	nodeFlags               // __print_flags(args[0], delim, syms)
	nodeSymbol              // __print_symbolic(args[0], syms)
	nodeHex                 // __print_hex(args[0], length args[1])
	nodeArray               // __print_array(args[0], count args[1], element size args[2])
	nodeCast                // (text)args[0]
	nodeString              // __get_str(field)
	_                       // a string of trace_printk
	nodeDynamic             // __get_dynamic_array(field)
	nodeOp                  // args[0] op args[1]
	_                       // a function registered by a plugin
	nodeBitmask             // __get_bitmask(field)
	nodeDynamicLen          // __get_dynamic_array_len(field)
	nodeHexStr              // __print_hex_str
	nodeCPUMask             // __get_cpumask(field)
	nodeLongSize            // sizeof(long), in libtraceevent an atom
)

// symbol is one { value, "name" }.
type symbol struct {
	val  int64
	name string
}

// op is an operator: its character, or one of these constants.
type op byte

const (
	opShl op = 'L'
	opShr op = 'R'
	opLE  op = 'l'
	opGE  op = 'g'
	opEQ  op = 'e'
	opNE  op = 'n'
	opAnd op = 'a'
	opOr  op = 'o'
)

// operators are the binary operators. One with a larger prio binds more loosely.
var operators = map[string]struct {
	op   op
	prio int8
}{
	"*": {'*', 6}, "/": {'/', 6}, "%": {'%', 6},
	"+": {'+', 7}, "-": {'-', 7},
	"<<": {opShl, 8}, ">>": {opShr, 8},
	"<": {'<', 9}, ">": {'>', 9}, "<=": {opLE, 9}, ">=": {opGE, 9},
	"==": {opEQ, 10}, "!=": {opNE, 10},
	"&": {'&', 11}, "^": {'^', 12}, "|": {'|', 13},
	"&&": {opAnd, 14}, "||": {opOr, 15}, "?": {'?', 16},
}

// rank returns the prio of a tree's top operator, or -1 if there is none.
func rank(n *node) int8 {
	switch {
	case n.kind != nodeOp || n.op == '[':
		return -1
	case n.op == '!' || n.op == '~':
		return 4
	case n.op == '?':
		return 16
	}
	for _, o := range operators {
		if o.op == n.op {
			return o.prio
		}
	}
	return -1
}

// arguments reads the arguments that follow the format string.
func (p *parser) arguments() []*node {
	var list []*node
	for p.kind != tokError {
		n := p.arg()
		if p.kind == tokOp {
			p.operator(n)
			fold(n)
		}
		list = append(list, n)
		if !p.is(tokDelim, ",") {
			break
		}
	}
	return list
}

// arg reads one operand, which starts at the next token.
func (p *parser) arg() *node {
	p.next()
	return p.operand()
}

// operand reads one operand, which starts at the current token, and moves to the token after it.
func (p *parser) operand() *node {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deeply")
	}
	defer func() { p.depth-- }()
	switch {
	case p.kind == tokItem:
		return p.item()
	case p.kind == tokString:
		n := atom(p.text)
		p.next()
		return n
	case p.kind == tokChar:
		c := int8(0)
		if p.text != "" {
			c = int8(p.text[0])
		}
		p.next()
		return atom(strconv.Itoa(int(c)))
	case p.is(tokDelim, "("):
		return p.paren()
	case p.kind == tokOp:
		return p.unary()
	}
	p.fail("no operand at %q", p.rest())
	return &node{}
}

func atom(text string) *node {
	return &node{kind: nodeAtom, text: text, val: leadingUint(text)}
}

// item reads REC->field, a function call, or other words.
func (p *parser) item() *node {
	text, start := p.text, p.pos-len(p.text)
	p.next()
	if text == "REC" {
		return p.entry()
	}
	if p.is(tokDelim, "(") {
		return p.call(text)
	}
	if p.kind == tokItem {
		text = p.words(start, func() bool { return p.kind == tokItem })
	}
	return atom(text)
}

// entry reads the tokens after REC, or (REC).
func (p *parser) entry() *node {
	if p.is(tokDelim, ")") {
		return &node{} // paren calls entry again
	}
	if !p.expect(tokOp, "->") {
		return &node{}
	}
	p.next()
	if p.kind != tokItem {
		p.fail("no field at %q", p.rest())
		return &node{}
	}
	n := &node{kind: nodeField, text: p.text, field: p.f.Field(p.text)}
	p.next()
	return n
}

// paren reads an expression in parentheses or a cast.
func (p *parser) paren() *node {
	p.next()
	if p.is(tokOp, "{") {
		p.refuse("statement expression")
		p.skipParens()
		return &node{}
	}
	rec := p.is(tokItem, "REC")
	n := p.operand()
	if rec && n.kind == nodeNull && p.is(tokDelim, ")") {
		p.next()
		return p.entry()
	}
	if p.kind == tokOp {
		p.operator(n)
	}
	if !p.expect(tokDelim, ")") {
		return n
	}
	p.next()
	switch {
	case p.kind == tokItem, p.kind == tokString, p.kind == tokChar, p.is(tokDelim, "("):
	default:
		return n
	}
	if n.kind != nodeAtom {
		p.fail("no type before %q", p.rest())
		return n
	}
	return &node{kind: nodeCast, text: n.text, val: castMask(n.text), args: [3]*node{p.operand()}}
}

// unary reads an operator without a left side.
func (p *parser) unary() *node {
	n := &node{kind: nodeOp, op: op(p.text[0])}
	switch p.text {
	case "!", "~", "+", "-":
	case "&", "*":
		p.refuse("unary " + p.text)
	default:
		p.fail("no operand at %q", p.rest())
		return n
	}
	n.args[0] = &node{}
	n.args[1] = p.arg()
	p.climb(n, n.args[1])
	return n
}

// operator replaces n by the tree of the current token, an operator. Its left side is the old n.
func (p *parser) operator(n *node) {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deeply")
		return
	}
	defer func() { p.depth-- }()
	o, known := operators[p.text]
	left := *n
	var right *node
	switch {
	case p.text == "?":
		*n = node{kind: nodeOp, op: '?', args: [3]*node{&left, p.branches()}}
	case p.text == "[":
		*n = node{kind: nodeOp, op: '[', args: [3]*node{&left, p.arg()}}
		if !p.expect(tokOp, "]") {
			return
		}
		p.next()
	case p.text == ".":
		p.refuse("member of a structure")
		if p.next(); p.kind != tokItem {
			p.fail("no member at %q", p.rest())
			return
		}
		p.next()
	case known:
		p.next()
		if o.op == '*' && p.is(tokDelim, ")") { // a pointer's type
			if left.kind != nodeAtom {
				p.fail("no pointer type at %q", p.rest())
			}
			*n = *atom(left.text + " *")
			return
		}
		right = p.operand()
		*n = node{kind: nodeOp, op: o.op, prio: o.prio, args: [3]*node{&left, right}}
		if o.prio < rank(right) {
			n.args[1] = right.args[0]
			*n, *right = *right, *n
			n.args[0] = right
		}
	default:
		p.fail("unknown operator at %q", p.rest())
		return
	}
	p.climb(n, right)
}

// branches reads A : B after a question mark.
func (p *parser) branches() *node {
	p.next()
	if p.is(tokOp, ":") { // in GNU C, A is the condition then
		p.refuse("?: without a middle")
		return &node{kind: nodeOp, op: ':', args: [3]*node{{}, p.arg()}}
	}
	a := p.operand()
	for p.kind == tokOp && p.text != ":" {
		p.operator(a)
	}
	if !p.expect(tokOp, ":") {
		return &node{kind: nodeOp, op: ':', args: [3]*node{a, {}}}
	}
	return &node{kind: nodeOp, op: ':', args: [3]*node{a, p.arg()}}
}

// climb reads the next operator, if there is one. Its left side is n, or only n's right side.
func (p *parser) climb(n, right *node) {
	if p.kind != tokOp || p.text == ":" {
		return
	}
	o, known := operators[p.text]
	switch {
	case (p.text == "[" || p.text == ".") && right != nil:
		p.operator(right)
	case p.text == ".":
		p.operator(n)
	case !known:
		p.fail("unknown operator at %q", p.rest())
	case o.prio > n.prio:
		p.operator(n)
	default:
		p.operator(right)
	}
}

// call reads the arguments of a function. The current token is the opening parenthesis.
func (p *parser) call(name string) *node {
	switch name {
	case "__print_flags":
		return p.printFlags()
	case "__print_symbolic":
		n := &node{kind: nodeSymbol}
		n.args[0] = p.fullArg()
		p.symbols(n)
		return n
	case "__print_hex":
		return p.function(nodeHex, 2)
	case "__print_hex_str":
		return p.function(nodeHexStr, 2)
	case "__print_array":
		return p.function(nodeArray, 3)
	case "__get_str", "__get_rel_str":
		return p.fieldFunction(nodeString)
	case "__get_bitmask", "__get_rel_bitmask":
		return p.fieldFunction(nodeBitmask)
	case "__get_cpumask", "__get_rel_cpumask":
		return p.fieldFunction(nodeCPUMask)
	case "__get_dynamic_array", "__get_rel_dynamic_array", "__get_sockaddr", "__get_sockaddr_rel":
		n := p.fieldFunction(nodeDynamic)
		if p.is(tokOp, "[") {
			p.refuse("index of " + name)
		}
		return n
	case "__get_dynamic_array_len", "__get_rel_dynamic_array_len":
		return p.fieldFunction(nodeDynamicLen)
	case "__builtin_expect":
		n := p.arg()
		p.expect(tokDelim, ",")
		p.next()
		p.skipParens()
		return n
	case "sizeof":
		return p.sizeof()
	}
	p.refuse("function " + name)
	p.next()
	p.skipParens()
	return &node{}
}

// fullArg reads an operand and all operators after it.
func (p *parser) fullArg() *node {
	n := p.arg()
	for p.kind == tokOp {
		p.operator(n)
	}
	return n
}

// function reads a function of count arguments.
func (p *parser) function(kind nodeKind, count int) *node {
	n := &node{kind: kind}
	for i := range count {
		n.args[i] = p.arg()
		if p.kind == tokOp {
			p.operator(n.args[i])
			fold(n.args[i])
		}
		if i < count-1 {
			p.expect(tokDelim, ",")
		}
	}
	p.closing()
	return n
}

// fieldFunction reads a function whose argument is a field's name.
func (p *parser) fieldFunction(kind nodeKind) *node {
	p.next()
	if p.kind != tokItem {
		p.fail("no field at %q", p.rest())
		return &node{}
	}
	n := &node{kind: kind, text: p.text, field: p.f.Field(p.text)}
	if n.field == nil && (kind == nodeDynamic || kind == nodeDynamicLen) {
		p.fail("no field %s", p.text)
	}
	p.next()
	p.closing()
	return n
}

func (p *parser) printFlags() *node {
	n := &node{kind: nodeFlags}
	n.args[0] = p.fullArg()
	p.expect(tokDelim, ",")
	p.next()
	if p.kind == tokString || p.kind == tokItem || p.kind == tokChar {
		n.delim = p.text
		p.next()
	}
	p.symbols(n)
	return n
}

// symbols reads ", { value, name }, …)".
func (p *parser) symbols(n *node) {
	for p.is(tokDelim, ",") {
		p.next()
		if !p.is(tokOp, "{") {
			break
		}
		p.next()
		if p.is(tokOp, "}") {
			p.refuse("empty { }")
			p.next()
			continue
		}
		v := p.operand()
		if p.kind == tokOp {
			p.operator(v)
		}
		p.expect(tokDelim, ",")
		value := p.constant(v)
		name := p.constant(p.arg())
		p.expect(tokOp, "}")
		n.syms = append(n.syms, symbol{symbolValue(value), name})
		p.next()
	}
	p.closing()
}

// constant returns the text of an atom, or the value of an expression of atoms.
func (p *parser) constant(n *node) string {
	switch {
	case p.err != nil: // the tree may be incomplete
		return ""
	case n.kind == nodeAtom:
		return n.text
	case n.kind == nodeCast:
		return p.constant(n.args[0])
	}
	v, err := constInt(n)
	if err != nil {
		p.fail("%w", err)
	}
	return strconv.FormatInt(v, 10)
}

var errNotConstant = errors.New("not a constant")

// constInt computes with C's long long, which libtraceevent does only here.
func constInt(n *node) (int64, error) {
	switch n.kind {
	case nodeNull:
		return 0, nil
	case nodeAtom:
		return leadingInt(n.text), nil
	case nodeCast:
		v, err := constInt(n.args[0])
		return int64(uint64(v) & n.val), err
	case nodeOp:
	default:
		return 0, errNotConstant
	}
	if n.op == '?' || n.op == ':' || n.op == '[' {
		return 0, errNotConstant
	}
	a, err := constInt(n.args[0])
	if err != nil {
		return 0, err
	}
	b, err := constInt(n.args[1])
	if err != nil {
		return 0, err
	}
	switch n.op {
	case '<':
		return truth(a < b), nil
	case '>':
		return truth(a > b), nil
	case opLE:
		return truth(a <= b), nil
	case opGE:
		return truth(a >= b), nil
	case opShr:
		return a >> (b & 63), nil
	case '*', '/', '%', '^', '!':
		return 0, errNotConstant
	}
	return int64(compute(n.op, uint64(a), uint64(b))), nil
}

// truth returns C's value of a comparison.
func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// symbolValue returns the number of a { value, name }. Besides numbers, libtraceevent knows a few names; other names
// and negative numbers are -1.
func symbolValue(s string) int64 {
	if s != "" && s[0]-'0' < 10 {
		return int64(leadingUint(s))
	}
	for i, name := range [...]string{"HI_SOFTIRQ", "TIMER_SOFTIRQ", "NET_TX_SOFTIRQ", "NET_RX_SOFTIRQ", "BLOCK_SOFTIRQ",
		"IRQ_POLL_SOFTIRQ", "TASKLET_SOFTIRQ", "SCHED_SOFTIRQ", "HRTIMER_SOFTIRQ", "RCU_SOFTIRQ"} {
		if s == name {
			return int64(i)
		}
	}
	switch s {
	case "HRTIMER_NORESTART":
		return 0
	case "HRTIMER_RESTART":
		return 1
	}
	return -1
}

// sizeof reads the argument of sizeof. The current token is the opening parenthesis.
func (p *parser) sizeof() *node {
	start := p.pos
	p.next()
	if p.is(tokDelim, "(") {
		p.refuse("sizeof an expression")
		p.skipParens()
		return atom("0")
	}
	words := p.words(start, func() bool { return p.kind == tokItem || p.kind == tokOp })
	p.closing()
	switch words {
	case "unsigned", "unsigned int", "int":
		return atom("4")
	case "long", "unsigned long":
		return &node{kind: nodeLongSize}
	case "long long", "unsigned long long":
		return atom("8")
	}
	if name, ok := strings.CutPrefix(words, "REC->"); ok {
		if fd := p.f.Field(name); fd != nil && !fd.Array {
			return atom(strconv.Itoa(fd.Size))
		}
	}
	switch strings.TrimPrefix(words, "__") {
	case "u64", "s64":
		return atom("8")
	case "u32", "s32":
		return atom("4")
	case "u16", "s16":
		return atom("2")
	case "u8", "s8":
		if words != "__s8" { // libtraceevent misspells it
			return atom("1")
		}
	}
	p.refuse("sizeof(" + words + ")")
	return atom("0")
}

// castMask returns the bits of a number that a cast keeps. libtraceevent knows only these types, and does not extend
// signs.
func castMask(typ string) uint64 {
	switch typ {
	case "u8", "s8", "char", "unsigned char":
		return 0xff
	case "u16", "s16", "short", "unsigned short":
		return 0xffff
	case "u32", "s32", "int", "unsigned int":
		return 0xffffffff
	}
	return 1<<64 - 1
}

// fold replaces operators between two atoms by an atom.
func fold(n *node) {
	if n == nil || n.kind != nodeOp {
		return
	}
	a, b := n.args[0], n.args[1]
	fold(a)
	fold(b)
	if a == nil || b == nil || a.kind != nodeAtom || b.kind != nodeAtom {
		return
	}
	v := compute(n.op, a.val, b.val)
	switch n.op {
	case '?', ':', '[':
		return
	case '^':
		v = a.val ^ b.val
	}
	*n = *atom(strconv.FormatInt(int64(v), 10))
}
