package pcapfilter

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// parser compiles tokens to a condition.
type parser struct{ headers }

func (p *parser) arithmetic() arithmetic { return arithmetic{&p.headers} }

type direction uint8

const (
	either direction = iota // src or dst, also without a direction
	source
	destination
	both
)

// qualifiers precede an address, a port or a number. A list repeats them: "port 80 or 443".
type qualifiers struct {
	proto string // a key of protocols, "ether", or "" for all
	dir   direction
	kind  string // "host", "net", "port", "portrange", "proto", or "" for an address
}

// operand is a part of an expression: a condition or, if value is not nil, a number.
type operand struct {
	cond  *cond
	list  *qualifiers // those that a following "and" or "or" repeats
	value *value
	at    token // the first token
}

func (p *parser) program() *cond {
	if p.cursor.peek().kind == tokenEnd {
		return always(true)
	}
	o := p.expression(nil)
	if t := p.cursor.peek(); t.kind != tokenEnd {
		p.cursor.unexpected(t)
	}
	return p.condition(o)
}

// condition returns an operand's condition. A number needs a comparison.
func (p *parser) condition(o operand) *cond {
	if o.value != nil {
		return p.cursor.fail(o.at, "a number needs a comparison, such as \"= 0\"")
	}
	return o.cond
}

// expression parses operands with "and" and "or", which are of equal precedence. list is the qualifiers that it may
// repeat, or nil.
func (p *parser) expression(list *qualifiers) operand {
	p.cursor.enter()
	defer p.cursor.leave()
	o := p.term(list)
	for {
		join := and
		switch {
		case p.cursor.accept("and"):
		case p.cursor.accept("or"):
			join = or
		default:
			return o
		}
		left := p.condition(o)
		right := p.term(o.list)
		o = operand{cond: join(left, p.condition(right)), list: right.list, at: o.at}
	}
}

func (p *parser) term(list *qualifiers) operand {
	p.cursor.enter()
	defer p.cursor.leave()
	at := p.cursor.peek()
	if p.cursor.accept("not") || p.cursor.accept("!") {
		o := p.term(list)
		return operand{cond: not(p.condition(o)), list: o.list, at: at}
	}
	var o operand
	switch {
	case p.cursor.accept("("):
		o = p.expression(list)
		p.cursor.expect(")")
	case p.cursor.startsNumber():
		o.value = p.arithmetic().value(0)
	case list != nil && p.cursor.startsItem():
		return operand{cond: p.item(*list), list: list, at: at}
	default:
		o = p.primitive()
	}
	o.at = at
	if o.value != nil {
		return p.comparison(o, list)
	}
	return o
}

// comparison parses the rest of a comparison, after the left operand or a part of it. A number without a comparison
// is an item of a list, or stands in parentheses.
func (p *parser) comparison(o operand, list *qualifiers) operand {
	numbers := p.arithmetic()
	left := numbers.after(o.value, 0)
	if op, ok := p.cursor.acceptAny("=", "==", "!=", "<=", ">=", "<", ">"); ok {
		return operand{cond: numbers.compare(op, left, numbers.value(0), o.at), at: o.at}
	}
	if left.op == opNumber && list != nil {
		return operand{cond: p.numberItem(*list, left.number, o.at), list: list, at: o.at}
	}
	return operand{value: left, at: o.at}
}

// primitive parses one that begins with a keyword.
func (p *parser) primitive() operand {
	t := p.cursor.peek()
	if t.kind != tokenWord {
		if slices.Contains([]tokenKind{tokenName, tokenIPv4, tokenIPv6, tokenMAC}, t.kind) {
			return operand{cond: p.cursor.fail(t, `%s needs a word before it, such as "host"`, t.text)}
		}
		return operand{cond: p.cursor.unexpected(t)}
	}
	switch p.cursor.next++; t.text {
	case "less":
		return operand{cond: atMost(p.cursor.number())}
	case "greater":
		return operand{cond: atLeast(p.cursor.number())}
	case "vlan":
		return operand{cond: p.vlan(t)}
	case "mpls":
		return operand{cond: p.mpls(t)}
	case "pppoed":
		return operand{cond: p.pppoed(t)}
	case "pppoes":
		return operand{cond: p.pppoes(t)}
	}
	p.cursor.next--
	return p.qualified()
}

// qualified parses qualifiers with the item that they need, or a protocol alone.
func (p *parser) qualified() operand {
	first := p.cursor.peek()
	var q qualifiers
	if isProtocolWord(first.text) {
		p.cursor.next++
		if q.proto = first.text; q.proto == "link" {
			q.proto = "ether"
		}
	}
	hasDir := p.direction(&q)
	if !hasDir {
		if cast, ok := p.cursor.acceptAny("broadcast", "multicast"); ok {
			return operand{cond: p.cast(cast, q.proto, first)}
		}
	}
	kinds := []string{"host", "net", "portrange", "port"}
	if !hasDir {
		kinds = append(kinds, "proto")
	}
	var hasKind bool
	q.kind, hasKind = p.cursor.acceptAny(kinds...)
	switch {
	case hasDir || hasKind:
		return operand{cond: p.item(q), list: &q}
	case q.proto == "":
		return operand{cond: p.cursor.unexpected(first)}
	case q.proto == "ether":
		const want = `expected a word such as "host", "src" or "proto" after "ether"`
		return operand{cond: p.cursor.fail(p.cursor.peek(), want)}
	}
	if reason, ok := unsupported[p.cursor.peek().text]; ok {
		return operand{cond: p.cursor.fail(p.cursor.peek(), "%q is not supported: %s", p.cursor.peek().text, reason)}
	}
	return operand{cond: p.protocol(q.proto, first)}
}

// direction parses src, dst, "src or dst" or "src and dst".
func (p *parser) direction(q *qualifiers) bool {
	word, ok := p.cursor.acceptAny("src", "dst")
	if !ok {
		return false
	}
	q.dir, word = source, map[string]string{"src": "dst", "dst": "src"}[word]
	if word == "src" {
		q.dir = destination
	}
	joint, other := p.cursor.peek(), p.cursor.tokens[min(p.cursor.next+1, len(p.cursor.tokens)-1)]
	if joint.kind == tokenWord && other.kind == tokenWord && other.text == word {
		switch joint.text {
		case "or":
			q.dir, p.cursor.next = either, p.cursor.next+2
		case "and":
			q.dir, p.cursor.next = both, p.cursor.next+2
		}
	}
	return true
}

// expected describes the words that must follow a kind.
var expected = map[string]string{"port": "a port", "portrange": "two ports, such as 80-90", "proto": "a protocol",
	"net": "a network"}

// item parses the operand after qualifiers: an address, a port, a number, a name, or several of
// them in parentheses.
func (p *parser) item(q qualifiers) *cond {
	p.cursor.enter()
	defer p.cursor.leave()
	if p.cursor.accept("not") || p.cursor.accept("!") {
		return not(p.item(q))
	}
	if p.cursor.accept("(") {
		c := p.item(q)
		for {
			if p.cursor.accept("and") {
				c = and(c, p.item(q))
			} else if p.cursor.accept("or") {
				c = or(c, p.item(q))
			} else {
				p.cursor.expect(")")
				return c
			}
		}
	}
	t := p.cursor.take()
	switch t.kind {
	case tokenNumber:
		return p.numberItem(q, t.number, t)
	case tokenIPv4:
		return p.ipv4Item(q, t)
	case tokenIPv6:
		return p.ipv6Item(q, t)
	case tokenMAC:
		return p.macItem(q, t)
	case tokenName:
		return p.nameItem(q, t, t.text[1:])
	case tokenWord:
		if !isKeyword(t.text) || q.kind == "proto" && isProtocolWord(t.text) {
			return p.nameItem(q, t, t.text)
		}
	}
	what, ok := expected[q.kind]
	if !ok {
		what = "an address"
	}
	return p.cursor.fail(t, "expected %s", what)
}

func (p *parser) numberItem(q qualifiers, n uint32, t token) *cond {
	switch q.kind {
	case "port", "portrange":
		return p.ports(q, portRange{n, n, 0}, t)
	case "proto":
		return p.protoNumber(q, n, t)
	case "net": // "net 10" is 10.0.0.0/8
		mask := uint32(0xffffffff)
		for n > 0 && n < 1<<24 {
			n, mask = n<<8, mask<<8
		}
		return p.ipv4Net(q, n, mask, t)
	}
	return p.ipv4Net(q, n, 0xffffffff, t)
}

func (p *parser) ipv4Item(q qualifiers, t token) *cond {
	mask, explicit := uint32(0xffffffff)<<(32-t.bits), true
	length := p.cursor.peek()
	switch {
	case p.cursor.accept("/"):
		bits := p.cursor.take()
		if bits.kind != tokenNumber || bits.number > 32 {
			return p.cursor.fail(bits, "expected a prefix length from 0 to 32")
		}
		mask = uint32(uint64(0xffffffff) << (32 - bits.number))
	case p.cursor.accept("mask"):
		m := p.cursor.take()
		if m.kind != tokenIPv4 {
			return p.cursor.fail(m, "expected a mask, such as 255.255.0.0")
		}
		mask = m.number
	default:
		explicit = false
	}
	if explicit && q.kind != "net" {
		return p.cursor.fail(length, `only networks have a mask: write "net"`)
	}
	if explicit && t.number&^mask != 0 {
		return p.cursor.fail(t, "the address has bits outside of the mask: write %s", dotted(t.number&mask))
	}
	if q.kind == "port" || q.kind == "portrange" || q.kind == "proto" {
		return p.cursor.fail(t, "an address cannot follow %q", q.kind)
	}
	return p.ipv4Net(q, t.number, mask, t)
}

func dotted(addr uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], addr)
	return netip.AddrFrom4(b).String()
}

func (p *parser) ipv6Item(q qualifiers, t token) *cond {
	bits := uint32(128)
	if length := p.cursor.peek(); p.cursor.accept("/") {
		n := p.cursor.take()
		if n.kind != tokenNumber || n.number > 128 {
			return p.cursor.fail(n, "expected a prefix length from 0 to 128")
		}
		if bits = n.number; q.kind != "net" && bits != 128 {
			return p.cursor.fail(length, `only networks have a mask: write "net"`)
		}
	}
	if q.kind == "port" || q.kind == "portrange" || q.kind == "proto" {
		return p.cursor.fail(t, "an address cannot follow %q", q.kind)
	}
	a := netip.AddrFrom16([16]byte(t.addr))
	if prefix := netip.PrefixFrom(a, int(bits)).Masked(); prefix.Addr() != a {
		return p.cursor.fail(t, "the address has bits outside of the mask: write %s", prefix.Addr())
	}
	if q.proto != "" && q.proto != "ip6" {
		return p.cursor.fail(t, "an IPv6 address cannot follow %q", q.proto)
	}
	return p.ipv6Net(q.dir, t.addr, bits, t)
}

func (p *parser) macItem(q qualifiers, t token) *cond {
	if q.proto != "ether" || q.kind != "" && q.kind != "host" {
		return p.cursor.fail(t, `an Ethernet address needs "ether host", "ether src" or "ether dst"`)
	}
	return p.etherHost(q.dir, t.addr, t)
}

// nameItem compiles the name of a port, ports or a protocol.
func (p *parser) nameItem(q qualifiers, t token, name string) *cond {
	switch q.kind {
	case "port":
		r, ok := parsePort(name)
		if !ok {
			return p.unknownName(t, "port", name, namesOf(services()))
		}
		return p.ports(q, r, t)
	case "portrange":
		first, last, isRange := strings.Cut(name, "-")
		a, okA := parsePort(first)
		b, okB := parsePort(last)
		switch {
		case !okA:
			return p.unknownName(t, "port", first, namesOf(services()))
		case !isRange:
			return p.ports(q, a, t)
		case !okB:
			return p.unknownName(t, "port", last, namesOf(services()))
		}
		r := portRange{min(a.first, b.first), max(a.first, b.first), 0}
		if a.proto == b.proto {
			r.proto = a.proto
		}
		return p.ports(q, r, t)
	case "proto":
		return p.protoName(q, t, name)
	}
	return p.cursor.failNear(t, name, keywords, "unknown address %q: gperf does not look up names", name)
}

func (p *parser) unknownName(t token, kind, name string, names []string) *cond {
	return p.cursor.failNear(t, name, names, "unknown %s %q", kind, name)
}

func namesOf(names numbers) []string { return slices.Sorted(maps.Keys(names)) }

// parsePort parses a port's number or name.
func parsePort(s string) (portRange, bool) {
	if t, msg := classify(s); t.kind == tokenNumber && msg == "" {
		return portRange{t.number, t.number, 0}, true
	}
	port, proto, ok := servicePort(s)
	return portRange{port, port, proto}, ok
}

// protoName compiles the protocol of a name, which is an EtherType's after "ether proto".
func (p *parser) protoName(q qualifiers, t token, name string) *cond {
	if q.proto == "ether" {
		names := []string{"loopback"}
		for word, proto := range protocols {
			if names = append(names, word); word == name && proto.etherType != 0 {
				return p.protoNumber(q, proto.etherType, t)
			}
		}
		if n, ok := etherTypes[name]; ok {
			return p.protoNumber(q, n, t)
		}
		slices.Sort(names)
		return p.unknownName(t, "EtherType", name, names)
	}
	if n, ok := ipProtocols()[name][""]; ok {
		return p.protoNumber(q, n, t)
	}
	if proto := protocols[name]; proto.number != 0 {
		return p.protoNumber(q, proto.number, t)
	}
	return p.unknownName(t, "protocol", name, namesOf(ipProtocols()))
}
