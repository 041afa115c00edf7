package tracepoint

import "slices"

// Symbol is a name that the print fmt prints for a number.
type Symbol struct {
	Name  string
	Value int64
}

// Symbols returns the names that __print_symbolic or __print_flags of the print fmt assign
// to a field's numbers or bits. It returns nil for most fields.
func (f *Format) Symbols(fd *Field) []Symbol {
	for i := range f.prog {
		if l := f.prog[i].arg.symbolsOf(fd); l != nil {
			return l
		}
	}
	return nil
}

func (n *node) symbolsOf(fd *Field) (l []Symbol) {
	if n == nil {
		return nil
	}
	if (n.kind == nodeSymbol || n.kind == nodeFlags) && n.args[0].uncast().field == fd {
		for _, s := range n.syms {
			l = append(l, Symbol{s.name, s.val})
		}
		return l
	}
	for _, arg := range n.args {
		if l = arg.symbolsOf(fd); l != nil {
			return l
		}
	}
	return nil
}

// uncast removes a cast and returns its operand.
func (n *node) uncast() *node {
	for n != nil && n.kind == nodeCast {
		n = n.args[0]
	}
	return n
}

// PrintsText reports whether the print fmt prints a text that depends on a field's number.
func (f *Format) PrintsText(fd *Field) bool {
	for i := range f.prog {
		if f.prog[i].spec.conv == 's' && f.prog[i].arg.mentions(fd) {
			return true
		}
	}
	return false
}

func (n *node) mentions(fd *Field) bool {
	return n != nil && (n.field == fd ||
		slices.ContainsFunc(n.args[:], func(arg *node) bool { return arg.mentions(fd) }))
}
