// Package demangle decodes the names that compilers of C++, Rust and OCaml and profilers of Java write into symbol
// tables. It prints them as perf does.
package demangle

import (
	"slices"
	"strings"

	itanium "github.com/ianlancetaylor/demangle"
)

// Name returns a symbol's name as perf shows it, or the name itself if it is not mangled. It tries the schemes in
// perf's order: Rust, C++, OCaml, Java (dso__demangle_sym in tools/perf/util/symbol.c).
func Name(name string) string {
	if shown, ok := demangleRust(name); ok {
		return shown
	}
	if shown, ok := demangleCXX(name); ok {
		return shown
	}
	if shown, ok := demangleOCaml(name); ok {
		return shown
	}
	if shown, ok := demangleJava(name); ok {
		return shown
	}
	return name
}

// demangleCXX demangles names of C++. Other names are C's: perf 7.3.4 treats them as mangled types, and shows a
// C function called f as "float", one called i as "int".
func demangleCXX(name string) (string, bool) {
	if strings.HasPrefix(name, "_Z") {
		return demangleItanium(name)
	}
	if isGlobalCtor(name) {
		return demangleGlobalCtor(name)
	}
	return "", false
}

// SameConstructor reports whether two names are those of one constructor or destructor of C++ for complete objects and
// for base classes, which are shown alike. It decodes neither, because programs of C++ have very many.
func SameConstructor(a, b string) bool {
	if len(a) != len(b) || !strings.HasPrefix(a, "_Z") {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i < len(a)-1 && isKind(a[i]) && isKind(b[i]) && (a[i-1] == 'C' || a[i-1] == 'D') &&
		(a[i+1] == 'E' || a[i+1] == 'I') && a[i+1:] == b[i+1:]
}

// isKind reports whether c is the kind in the name of a constructor, C1 to C5, or of a destructor, D0 to D5.
func isKind(c byte) bool { return c >= '0' && c <= '5' }

// IsType reports whether a name is a type as the C++ ABI encodes one: perf 7.3.4 shows the type in place of the name.
func IsType(name string) bool {
	if name == "" || name[0] == '_' || strings.ContainsAny(name, ".@") {
		return false
	}
	// A lower-case letter is a complete type, except r (restrict) and u (a vendor's type).
	if len(name) > 1 && isLower(name[0]) && name[0] != 'r' && name[0] != 'u' {
		return false
	}
	_, ok := demangleItanium("_ZTI" + name)
	return ok
}

// emptyPack marks an empty template argument pack while a name is printed.
const emptyPack = "\x00"

var dropEmptyPacks = strings.NewReplacer(", "+emptyPack, "", emptyPack, "")

// demangleItanium demangles a name of the Itanium C++ ABI.
func demangleItanium(name string) (string, bool) {
	ast, err := itanium.ToAST(renumber(name))
	if err != nil {
		return "", false
	}
	if !strings.Contains(name, "JE") && !strings.Contains(name, "nt") && !strings.Contains(name, "ad") {
		return itanium.ASTToString(ast), true
	}
	visited := make(map[itanium.AST]bool)
	ast.Traverse(func(a itanium.AST) bool {
		if visited[a] {
			return false
		}
		visited[a] = true
		likeGNU(a)
		return true
	})
	return dropEmptyPacks.Replace(itanium.ASTToString(ast)), true
}

// likeGNU changes a node that the library prints differently from GNU's demangler. GNU writes "> >" for closing
// brackets, but ">>" if the inner list ends in an empty pack: it deletes the pack's comma and then overlooks the
// bracket before it. It writes !(x<y>) with parentheses, and &(f()) for the address of a function, but &C::f.
func likeGNU(a itanium.AST) {
	switch a := a.(type) {
	case *itanium.Template:
		if len(a.Args) == 0 {
			return
		}
		last, ok := a.Args[len(a.Args)-1].(*itanium.ArgumentPack)
		if ok && len(last.Args) == 0 {
			// Append the mark after the pack: parameters refer to arguments by number.
			a.Args = append(slices.Clip(a.Args), &itanium.Name{Name: emptyPack})
		}
	case *itanium.Unary:
		op, ok := a.Op.(*itanium.Operator)
		switch {
		case ok && op.Name == "!" && isTemplate(a.Expr):
			a.SizeofType = true // makes the library print parentheses
		case ok && op.Name == "&" && isPlainFunction(a.Expr):
			a.Expr = &itanium.Special{Val: a.Expr} // stops the library from removing the parentheses
		}
	}
}

func isTemplate(a itanium.AST) bool {
	if q, ok := a.(*itanium.Qualified); ok {
		a = q.Name
	}
	_, ok := a.(*itanium.Template)
	return ok
}

// isPlainFunction reports whether a is a function with parameters outside of namespaces and classes.
func isPlainFunction(a itanium.AST) bool {
	t, ok := a.(*itanium.Typed)
	if !ok {
		return false
	}
	_, function := t.Type.(*itanium.FunctionType)
	_, qualified := t.Name.(*itanium.Qualified)
	return function && !qualified
}

// isGlobalCtor reports whether name is _GLOBAL__I_x or _GLOBAL__D_x: code that runs before or after main for the
// file that defines x.
func isGlobalCtor(name string) bool {
	return len(name) > len("_GLOBAL__I_") && strings.HasPrefix(name, "_GLOBAL_") &&
		strings.IndexByte("._$", name[8]) >= 0 && strings.IndexByte("DI", name[9]) >= 0 && name[10] == '_'
}

func demangleGlobalCtor(name string) (string, bool) {
	kind, key := "constructors", name[len("_GLOBAL__I_"):]
	if name[9] == 'D' {
		kind = "destructors"
	}
	if strings.HasPrefix(key, "_Z") {
		shown, ok := demangleItanium(key)
		if !ok {
			return "", false
		}
		key = shown
	}
	return "global " + kind + " keyed to " + key, true
}

// demangleOCaml decodes the names of OCaml's native compiler: "caml", then a module that begins with a capital, with
// "__" for "." and $xx for the byte xx.
func demangleOCaml(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "caml")
	if !ok || rest == "" || rest[0] < 'A' || rest[0] > 'Z' {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '_' && i+1 < len(rest) && rest[i+1] == '_':
			b.WriteByte('.')
			i++
		case c == '$' && i+2 < len(rest) && isHex(rest[i+1:i+3]):
			b.WriteByte(unhex(rest[i+1])<<4 | unhex(rest[i+2]))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i] | 0x20; (c < 'a' || c > 'f') && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// demangleJava decodes a JVM method descriptor, which profilers of Java write into symbol tables. It decodes
// "Ljava/lang/Object;equals(Ljava/lang/Object;)Z" to "java.lang.Object.equals(java.lang.Object)", without the result.
func demangleJava(name string) (string, bool) {
	end := strings.LastIndexByte(name, ')')
	if end < 0 {
		return "", false
	}
	const (
		prefix   = iota // before the class
		class           // in the class name
		method          // in the method name
		types           // in the argument types
		argClass        // in the class name of an argument
	)
	var b strings.Builder
	mode, arrays, args := prefix, 0, 0
	arg := func(s string) {
		if args > 0 {
			b.WriteString(", ")
		}
		args++
		b.WriteString(s)
	}
	closeArrays := func() {
		b.WriteString(strings.Repeat("[]", arrays))
		arrays = 0
	}
	for i := 0; i <= end; i++ {
		c := name[i]
		switch {
		case mode == prefix && c == 'L':
			mode = class
		case mode == types && c == 'L':
			arg("")
			mode = argClass
		case mode == types && c == 'V':
			b.WriteString("void")
			closeArrays()
		case mode == types && javaTypes[c] != "":
			arg(javaTypes[c])
			closeArrays()
		case mode == types && c == '[':
			arrays++
		case mode == types && c == ')':
			b.WriteByte(c)
			args = 0
		case mode == method && c == '(':
			b.WriteByte(c)
			mode = types
		case mode == class && c == ';':
			if isAlpha(name[i+1]) {
				b.WriteByte('.')
			}
			mode = method
		case mode == argClass && c == ';':
			mode = types // like perf, which appends an array's brackets to the next basic type
		case (mode == class || mode == argClass) && c == '/':
			b.WriteByte('.')
		case strings.IndexByte("[();/", c) >= 0:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

var javaTypes = map[byte]string{
	'B': "byte", 'C': "char", 'D': "double", 'F': "float",
	'I': "int", 'J': "long", 'S': "short", 'Z': "bool",
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Underscores returns the number of underscores at the start of a name. Of the names of one function, the one with the
// fewest is the public one: read, not __read.
func Underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }
