// Package pcapfilter compiles the expressions of pcap-filter(7), such as "tcp port 443 and not host 10.0.0.1", to
// classic BPF.
//
// A compiled program selects the packets that libpcap 1.10 selects, with these differences:
//
//   - Operators bind as in C: "len * 3 % 2" is "(len * 3) % 2". libpcap groups %
//     and ^ to the right. As in libpcap, & and | bind tighter than a comparison, and the words
//     "and" and "or" are of equal precedence.
//   - Each "proto[offset]" in a comparison requires a packet of this protocol. libpcap does not
//     check the right operands of arithmetic: "4 + ip[0] = 9" reads packets that are not IP.
//   - There are no look-ups of names of hosts and networks.
//   - "ether[offset]" requires an Ethernet header.
//   - Some words are refused: see the map unsupported.
package pcapfilter

import (
	"golang.org/x/net/bpf"
)

// LinkType is the header that packets begin with.
type LinkType uint8

const (
	Ethernet LinkType = iota
	Raw               // IPv4 or IPv6
)

// Limits of expressions. They bound the time and memory of a compilation.
const (
	maxExpr         = 4096 // bytes
	maxDepth        = 64   // nested parentheses, brackets and operators
	maxInstructions = 4096 // the kernel's BPF_MAXINSNS
)

// accepted is the return value of programs for selected packets: libpcap's number of bytes.
const accepted = 262144

// Compile compiles an expression for packets of a link type. The program returns 0 for packets
// that the expression does not select, and the empty expression selects all packets. A load
// after the packet's end returns 0. Errors are of type *Error.
func Compile(expr string, link LinkType) ([]bpf.Instruction, error) {
	if len(expr) > maxExpr {
		return nil, &Error{Expr: expr, Pos: maxExpr, Msg: "the expression is too long"}
	}
	tokens, err := scan(expr)
	if err != nil {
		return nil, err
	}
	c := &cursor{expr: expr, tokens: tokens}
	p := parser{newHeaders(c, link)}
	selected := p.program()
	if c.err != nil {
		return nil, c.err
	}
	prog := emit(selected)
	if len(prog) > maxInstructions {
		return nil, &Error{Expr: expr, Msg: "the expression requires too many instructions"}
	}
	return prog, nil
}
