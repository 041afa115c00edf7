package tracepoint

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// pointer appends a %p. ext is the part of the extension that libtraceevent parses.
func (p *printer) pointer(dst []byte, ext string, plen int, n *node) []byte {
	if ext == "" {
		v := p.num(n)
		if v == 0 {
			return append(dst, "(nil)"...) // like the C library
		}
		return p.env.appendCode(strconv.AppendUint(append(dst, "0x"...), v, 16), v)
	}
	switch ext[0] {
	case 'F', 'f', 'S', 's':
		return p.env.appendFunction(dst, ext[0] == 'F' || ext[0] == 'S', p.num(n))
	case 'M', 'm':
		return p.mac(dst, ext, n)
	case 'U':
		return p.uuid(dst, ext, n)
	case 'h':
		return p.buffer(dst, ext, plen, n)
	}
	if len(ext) == 1 { // %pI prints nothing unless a kind of address follows
		return dst
	}
	switch ext[1] {
	case '4':
		return p.ipv4(dst, ext, n)
	case '6':
		return p.ipv6(dst, ext, n)
	}
	return p.sockaddr(dst, ext, n)
}

// appendFunction appends a kernel function's name, and with an offset also the source line, if known.
func (e *Env) appendFunction(dst []byte, withOffset bool, ip uint64) []byte {
	if e.Symbol != nil {
		if name, offset, _, ok := e.Symbol(ip); ok {
			dst = append(dst, name...)
			if withOffset {
				dst = strconv.AppendUint(append(dst, "+0x"...), offset, 16)
				dst = e.appendSource(dst, ip, offset)
			}
			return dst
		}
	}
	return strconv.AppendUint(append(dst, "0x"...), ip, 16)
}

// appendSource appends the source line, if known, of the call that returns to ip, at offset in its function.
func (e *Env) appendSource(dst []byte, ip, offset uint64) []byte {
	if e.Source == nil || offset == 0 {
		return dst
	}
	return e.Source(dst, ip-1)
}

// appendCode appends the function and source line of a number that may be an ip, such as the location of skb:kfree_skb
// before Linux 6.4. It appends nothing if either is unknown.
func (e *Env) appendCode(dst []byte, ip uint64) []byte {
	if e.Source == nil || e.Symbol == nil {
		return dst
	}
	name, offset, _, ok := e.Symbol(ip)
	if !ok {
		return dst
	}
	named := append(append(append(dst, ' '), name...), "+0x"...)
	named = strconv.AppendUint(named, offset, 16)
	if with := e.appendSource(named, ip, offset); len(with) > len(named) {
		return with
	}
	return dst
}

// fixed returns dst and the size bytes of an argument's field. If the argument is
// unusable, it appends libtraceevent's error text to dst and returns no bytes.
func (p *printer) fixed(dst []byte, n *node, size int, invalid string) ([]byte, []byte) {
	n = n.uncast()
	switch {
	case n.kind != nodeField:
		return appendWrongKind(dst, n), nil
	case n.field == nil:
		return dst, nil
	case n.field.Size != size:
		return append(dst, invalid...), nil
	}
	b := cut(p.raw, n.field.Offset, size)
	if len(b) < size {
		return append(dst, invalid...), nil
	}
	return dst, b
}

func appendWrongKind(dst []byte, n *node) []byte {
	dst = append(dst, "ARG TYPE NOT FIELD BUT "...)
	return strconv.AppendUint(dst, uint64(n.kind.shown()), 10)
}

// shown returns libtraceevent's number for a kind.
func (k nodeKind) shown() nodeKind {
	if k == nodeLongSize {
		return nodeAtom
	}
	return k
}

func (p *printer) mac(dst []byte, ext string, n *node) []byte {
	dst, b := p.fixed(dst, n, 6, "INVALIDMAC")
	sep := ":"
	switch {
	case ext[0] == 'm':
		sep = ""
	case ext == "MF":
		sep = "-"
	}
	reverse := strings.HasSuffix(ext, "R")
	for i := range b {
		if i > 0 {
			dst = append(dst, sep...)
		}
		c := b[i]
		if reverse {
			c = b[len(b)-1-i]
		}
		dst = appendHexByte(dst, c)
	}
	return dst
}

func (p *printer) uuid(dst []byte, ext string, n *node) []byte {
	dst, b := p.fixed(dst, n, 16, "INVALIDUUID")
	start := len(dst)
	swap := ext == "UL" || ext == "Ul" // the first three groups are little-endian
	for i := range b {
		switch i {
		case 4, 6, 8, 10:
			dst = append(dst, '-')
		}
		j := i
		switch {
		case swap && i < 4:
			j = 3 - i
		case swap && i < 8:
			j = i ^ 1
		}
		dst = appendHexByte(dst, b[j])
	}
	if ext == "UL" || ext == "UB" {
		upper(dst[start:])
	}
	return dst
}

// buffer appends %*ph, which libtraceevent supports only for dynamic arrays.
func (p *printer) buffer(dst []byte, ext string, plen int, n *node) []byte {
	if n.kind != nodeDynamic {
		return appendWrongKind(dst, n)
	}
	off, length := n.field.span(p.raw, p.big)
	if plen < 0 {
		plen = 1 // no *
	}
	sep := " "
	switch ext {
	case "hC":
		sep = ":"
	case "hD":
		sep = "-"
	case "hN":
		sep = ""
	}
	for i, c := range cut(p.raw, off, min(plen, length)) {
		if i > 0 {
			dst = append(dst, sep...)
		}
		dst = appendHexByte(dst, c)
	}
	return dst
}

// reversed reports whether the last letter of an extension means that an IPv4 address is little-endian.
func (p *printer) reversed(ext string) bool {
	switch ext[len(ext)-1] {
	case 'h':
		return !p.big
	case 'l':
		return true
	}
	return false
}

func (p *printer) ipv4(dst []byte, ext string, n *node) []byte {
	dst, b := p.fixed(dst, n, 4, "INVALIDIPv4")
	if b == nil {
		return dst
	}
	return appendIPv4(dst, b, ext[0] == 'i', p.reversed(ext))
}

func appendIPv4(dst, b []byte, zeros, reverse bool) []byte {
	part := spec{conv: 'u', bits: 64, prec: -1, zero: true}
	if zeros {
		part.width = 3
	}
	for i := range 4 {
		if i > 0 {
			dst = append(dst, '.')
		}
		c := b[i]
		if reverse {
			c = b[3-i]
		}
		dst = part.appendNumber(dst, uint64(c))
	}
	return dst
}

func (p *printer) ipv6(dst []byte, ext string, n *node) []byte {
	dst, b := p.fixed(dst, n, 16, "INVALIDIPv6")
	if b == nil {
		return dst
	}
	return appendIPv6(dst, b, ext[0] == 'i', ext == "I6c")
}

// appendIPv6 appends all eight words, with colons (%pI6) or without (%pi6), or the shortest form (%pI6c).
func appendIPv6(dst, b []byte, bare, short bool) []byte {
	if short {
		return appendShortIPv6(dst, b)
	}
	for i := range 16 {
		if i > 0 && i%2 == 0 && !bare {
			dst = append(dst, ':')
		}
		dst = appendHexByte(dst, b[i])
	}
	return dst
}

func appendShortIPv6(dst, b []byte) []byte {
	word := func(i int) uint16 { return binary.BigEndian.Uint16(b[2*i:]) }
	words, v4 := 8, embedsIPv4(b)
	if v4 {
		words = 6
	}
	gap, gapLen := -1, 1 // the first longest run of zero words, at least two
	for i := 0; i < words; i++ {
		n := 0
		for i+n < words && word(i+n) == 0 {
			n++
		}
		if n > gapLen {
			gap, gapLen = i, n
		}
	}
	colon := false
	for i := 0; i < words; i++ {
		if i == gap {
			if colon || i == 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, ':')
			colon = false
			i += gapLen - 1
			continue
		}
		if colon {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(word(i)), 16)
		colon = true
	}
	if v4 {
		if colon {
			dst = append(dst, ':')
		}
		dst = appendIPv4(dst, b[12:], false, false)
	}
	return dst
}

// embedsIPv4 reports whether the last four bytes are an IPv4 address: v4-mapped or ISATAP.
func embedsIPv4(b []byte) bool {
	hi := binary.BigEndian.Uint64(b)
	mid := binary.BigEndian.Uint32(b[8:])
	return hi == 0 && mid == 0xffff || mid|0x02000000 == 0x02005efe
}

// sockaddr appends %pIS: the address of a sockaddr_in or sockaddr_in6, with p also the port. It appends nothing for
// other families.
func (p *printer) sockaddr(dst []byte, ext string, n *node) []byte {
	n = n.uncast()
	var sa []byte
	switch {
	case n.kind == nodeField && n.field != nil:
		sa = cut(p.raw, n.field.Offset, n.field.Size)
	case n.kind == nodeField:
		return dst
	case n.kind == nodeDynamic:
		off, length := n.field.span(p.raw, p.big)
		sa = cut(p.raw, off, length)
	default:
		dst = append(dst, "ARG NOT FIELD NOR DYNAMIC ARRAY BUT TYPE "...)
		return strconv.AppendUint(dst, uint64(n.kind.shown()), 10)
	}
	rest := ext[2:]
	port, short := false, false
	if ext[0] == 'I' {
		rest, port = strings.CutPrefix(rest, "p")
		rest, short = strings.CutPrefix(rest, "c")
	}
	const inet, inet6 = 2, 10
	family, _ := readUint(sa, 0, 2, p.big)
	switch {
	case family == inet && len(sa) < 16:
		return append(dst, "INVALIDIPv4"...)
	case family == inet:
		dst = appendIPv4(dst, sa[4:8], ext[0] == 'i', rest != "" && p.reversed(rest[:1]))
	case family == inet6 && len(sa) < 28:
		return append(dst, "INVALIDIPv6"...)
	case family == inet6 && port:
		dst = appendIPv6(append(dst, '['), sa[8:24], false, short)
		dst = append(dst, ']')
	case family == inet6:
		return appendIPv6(dst, sa[8:24], ext[0] == 'i', short)
	default:
		return dst
	}
	if port {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(sa[2:])), 10)
	}
	return dst
}
