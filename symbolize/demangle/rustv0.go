package demangle

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// demangleRustV0 demangles the names of Rust RFC 2603: _R, a path, and optionally the crate that instantiates it.
func demangleRustV0(name string) (shown, suffix string, ok bool) {
	rest, ok := cutAny(name, "_R", "R", "__R")
	if !ok || rest == "" || !isUpper(rest[0]) {
		return "", "", false
	}
	d := rustV0{rustReader: rustReader{s: rest}}
	d.path(true)
	if isUpper(d.peek()) {
		d.quietly(func() { d.path(false) })
	}
	if d.failed {
		return "", "", false
	}
	return d.out.String(), rest[d.pos:], true
}

const (
	rustMaxDepth = 500     // nested productions; the limit of rustc-demangle
	rustMaxOut   = 1 << 20 // bytes of output, which back references can multiply
	rustMaxSteps = 1 << 20 // productions
)

// rustV0 reads a name and writes it in the same pass, with one method per production of the grammar. After a failure
// every method does nothing.
type rustV0 struct {
	rustReader
	out   strings.Builder
	quiet int    // > 0: read without writing
	bound uint64 // number of lifetimes that the enclosing for<…> bind
	depth int
	steps int
}

func (d *rustV0) print(s string) {
	if d.quiet > 0 || d.failed {
		return
	}
	if d.out.Len()+len(s) > rustMaxOut {
		d.fail()
		return
	}
	d.out.WriteString(s)
}

func (d *rustV0) quietly(read func()) {
	d.quiet++
	read()
	d.quiet--
}

// enter begins a production, and returns the function that ends it.
func (d *rustV0) enter() func() {
	d.depth++
	d.steps++
	if d.depth > rustMaxDepth || d.steps > rustMaxSteps {
		d.fail()
	}
	return func() { d.depth-- }
}

// list reads items up to the E after the last, and returns their number.
func (d *rustV0) list(sep string, item func()) (n int) {
	for !d.failed && !d.eat('E') {
		if n > 0 {
			d.print(sep)
		}
		item()
		n++
	}
	return n
}

// backref reads a position, which must be before the B at start, and reads from there.
func (d *rustV0) backref(read func()) {
	start := uint64(d.pos - 1)
	to := d.base62()
	if to >= start {
		d.fail()
	}
	if d.failed || d.quiet > 0 {
		return
	}
	defer d.enter()()
	back := d.pos
	d.pos = int(to)
	read()
	d.pos = back
}

// path reads a path. In a value it writes "::" before generic arguments.
func (d *rustV0) path(inValue bool) {
	defer d.enter()()
	switch tag := d.next(); tag {
	case 'C': // crate root
		d.tagged62('s')
		d.print(d.ident())
	case 'N': // nested
		d.nested(inValue)
	case 'M', 'X', 'Y': // inherent impl, trait impl, trait definition
		if tag != 'Y' {
			d.tagged62('s')
			d.quietly(func() { d.path(false) })
		}
		d.print("<")
		d.typ()
		if tag != 'M' {
			d.print(" as ")
			d.path(false)
		}
		d.print(">")
	case 'I': // generic arguments
		d.path(inValue)
		if inValue {
			d.print("::")
		}
		d.print("<")
		d.list(", ", d.genericArg)
		d.print(">")
	case 'B':
		d.backref(func() { d.path(inValue) })
	default:
		d.fail()
	}
}

// nested reads a path and a name in it. An upper-case namespace is special: its names are shown in braces.
func (d *rustV0) nested(inValue bool) {
	ns := d.next()
	if !isUpper(ns) && !isLower(ns) {
		d.fail()
	}
	d.path(inValue)
	dis := d.tagged62('s')
	name := d.ident()
	if isLower(ns) {
		if name != "" {
			d.print("::" + name)
		}
		return
	}
	kind := string(rune(ns))
	switch ns {
	case 'C':
		kind = "closure"
	case 'S':
		kind = "shim"
	}
	if name != "" {
		name = ":" + name
	}
	d.print(fmt.Sprintf("::{%s%s#%d}", kind, name, dis))
}

func (d *rustV0) genericArg() {
	switch {
	case d.eat('L'):
		d.lifetime(d.base62())
	case d.eat('K'):
		d.constant(false)
	default:
		d.typ()
	}
}

// lifetime prints a lifetime counted from the innermost binder, 0 being '_.
func (d *rustV0) lifetime(i uint64) {
	switch {
	case d.quiet > 0:
	case i == 0:
		d.print("'_")
	case i > d.bound:
		d.fail()
	case d.bound-i < 26:
		d.print("'" + string(rune('a'+d.bound-i)))
	default:
		d.print("'_" + strconv.FormatUint(d.bound-i, 10))
	}
}

// binder reads an optional binder of lifetimes, for<'a, 'b>, and then calls read.
func (d *rustV0) binder(read func()) {
	n := d.tagged62('G')
	if d.quiet > 0 {
		read()
		return
	}
	if n > rustMaxOut {
		d.fail()
		return
	}
	outer := d.bound
	if n > 0 {
		d.print("for<")
		for i := uint64(0); i < n && !d.failed; i++ {
			if i > 0 {
				d.print(", ")
			}
			d.bound++
			d.lifetime(1)
		}
		d.print("> ")
	}
	read()
	d.bound = outer
}

var rustBasicTypes = map[byte]string{
	'b': "bool", 'c': "char", 'e': "str", 'u': "()", 'a': "i8", 's': "i16", 'l': "i32", 'x': "i64",
	'n': "i128", 'i': "isize", 'h': "u8", 't': "u16", 'm': "u32", 'y': "u64", 'o': "u128",
	'j': "usize", 'f': "f32", 'd': "f64", 'z': "!", 'p': "_", 'v': "...",
}

func (d *rustV0) typ() {
	defer d.enter()()
	tag := d.next()
	if basic := rustBasicTypes[tag]; basic != "" {
		d.print(basic)
		return
	}
	switch tag {
	case 'R', 'Q':
		d.print("&")
		if d.eat('L') {
			if i := d.base62(); i != 0 {
				d.lifetime(i)
				d.print(" ")
			}
		}
		if tag == 'Q' {
			d.print("mut ")
		}
		d.typ()
	case 'P':
		d.print("*const ")
		d.typ()
	case 'O':
		d.print("*mut ")
		d.typ()
	case 'A':
		d.print("[")
		d.typ()
		d.print("; ")
		d.constant(true)
		d.print("]")
	case 'S':
		d.print("[")
		d.typ()
		d.print("]")
	case 'T':
		d.tuple(d.typ)
	case 'F':
		d.binder(d.function)
	case 'D':
		d.print("dyn ")
		d.binder(func() { d.list(" + ", d.dynTrait) })
		if !d.eat('L') {
			d.fail()
		}
		if i := d.base62(); i != 0 {
			d.print(" + ")
			d.lifetime(i)
		}
	case 'B':
		d.backref(d.typ)
	default:
		d.pos--
		d.path(false)
	}
}

// tuple writes a list of items in parentheses. After a single item it writes a comma.
func (d *rustV0) tuple(item func()) {
	d.print("(")
	if d.list(", ", item) == 1 {
		d.print(",")
	}
	d.print(")")
}

// function reads a function's signature: unsafe extern "C" fn(A) -> B.
func (d *rustV0) function() {
	if d.eat('U') {
		d.print("unsafe ")
	}
	if d.eat('K') {
		abi := "C"
		if !d.eat('C') {
			abi = strings.ReplaceAll(d.ident(), "_", "-")
		}
		if abi == "" {
			d.fail()
		}
		d.print(`extern "` + abi + `" `)
	}
	d.print("fn(")
	d.list(", ", d.typ)
	d.print(")")
	if !d.eat('u') {
		d.print(" -> ")
		d.typ()
	}
}

// dynTrait reads a trait with its associated types, and writes these after the generic arguments: Iterator<Item = T>.
func (d *rustV0) dynTrait() {
	open := d.openGenerics()
	for d.eat('p') {
		if open {
			d.print(", ")
		} else {
			d.print("<")
		}
		open = true
		d.print(d.ident() + " = ")
		d.typ()
	}
	if open {
		d.print(">")
	}
}

// openGenerics reads a path. If the path has generic arguments, openGenerics returns true and the caller writes the
// closing bracket.
func (d *rustV0) openGenerics() (open bool) {
	switch {
	case d.eat('B'):
		d.backref(func() { open = d.openGenerics() })
	case d.eat('I'):
		d.path(false)
		d.print("<")
		d.list(", ", d.genericArg)
		open = true
	default:
		d.path(false)
	}
	return open
}

// constant reads a value. It writes braces around a value that is not a literal, unless it is part of another value.
func (d *rustV0) constant(inValue bool) {
	defer d.enter()()
	tag := d.next()
	switch tag {
	case 'p':
		d.print("_")
		return
	case 'a', 's', 'l', 'x', 'n', 'i':
		if d.eat('n') {
			d.print("-")
		}
		d.number()
		return
	case 'h', 't', 'm', 'y', 'o', 'j':
		d.number()
		return
	case 'b':
		v, ok := hexValue(d.nibbles())
		if !ok || v > 1 {
			d.fail()
		}
		d.print(strconv.FormatBool(v == 1))
		return
	case 'c':
		v, ok := hexValue(d.nibbles())
		if !ok || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
			d.fail()
		}
		d.print("'" + rustEscapeChar(rune(v), '\'') + "'")
		return
	case 'B':
		d.backref(func() { d.constant(inValue) })
		return
	case 'R':
		if d.eat('e') {
			d.str()
			return
		}
	}
	if !inValue {
		d.print("{")
		defer d.print("}")
	}
	switch tag {
	case 'e':
		d.print("*")
		d.str()
	case 'R':
		d.print("&")
		d.constant(true)
	case 'Q':
		d.print("&mut ")
		d.constant(true)
	case 'A':
		d.print("[")
		d.list(", ", func() { d.constant(true) })
		d.print("]")
	case 'T':
		d.tuple(func() { d.constant(true) })
	case 'V':
		d.variant()
	default:
		d.fail()
	}
}

// variant reads a struct's or an enum variant's value.
func (d *rustV0) variant() {
	d.path(true)
	switch d.next() {
	case 'U':
	case 'T':
		d.print("(")
		d.list(", ", func() { d.constant(true) })
		d.print(")")
	case 'S':
		d.print(" { ")
		d.list(", ", func() {
			d.tagged62('s')
			d.print(d.ident() + ": ")
			d.constant(true)
		})
		d.print(" }")
	default:
		d.fail()
	}
}

// hexValue returns the value of hexadecimal digits; an empty string is 0.
func hexValue(digits string) (uint64, bool) {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return 0, true
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	return v, err == nil
}

func (d *rustV0) number() {
	digits := d.nibbles()
	if v, ok := hexValue(digits); ok {
		d.print(strconv.FormatUint(v, 10))
	} else {
		d.print("0x" + digits)
	}
}

// str reads a string: the nibbles of its UTF-8 bytes.
func (d *rustV0) str() {
	digits := d.nibbles()
	if len(digits)%2 != 0 {
		d.fail()
		return
	}
	raw := make([]byte, len(digits)/2)
	for i := range raw {
		raw[i] = unhex(digits[2*i])<<4 | unhex(digits[2*i+1])
	}
	if !utf8.Valid(raw) {
		d.fail()
		return
	}
	d.print(`"`)
	for _, r := range string(raw) {
		d.print(rustEscapeChar(r, '"'))
	}
	d.print(`"`)
}

// rustEscapeChar returns a character as Rust's source writes it between quotes: characters outside of printable ASCII
// by number.
func rustEscapeChar(r, quote rune) string {
	switch r {
	case 0:
		return `\0`
	case '\t':
		return `\t`
	case '\r':
		return `\r`
	case '\n':
		return `\n`
	case '\\', quote:
		return `\` + string(r)
	}
	if r < 0x20 || r >= 0x7f {
		return fmt.Sprintf(`\u{%x}`, r)
	}
	return string(r)
}
