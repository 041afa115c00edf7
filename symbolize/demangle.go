package symbolize

import (
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Demangle returns the name as perf shows it, the name itself if it is not
// mangled. The order is perf's: Rust, C++, OCaml, Java (dso__demangle_sym in
// tools/perf/util/symbol.c).
func Demangle(name string) string {
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

// demangleCXX demangles as the C++ ABI's __cxa_demangle does. perf passes every
// name to it, and it treats a name that is not mangled as a mangled type: a C
// function called f is shown as "float", one called v as "void".
func demangleCXX(name string) (string, bool) {
	if strings.HasPrefix(name, "_Z") {
		return demangleItanium(name)
	}
	if isGlobalCtor(name) {
		return demangleGlobalCtor(name)
	}
	if !maybeType(name) {
		return "", false
	}
	const typeinfo, shownTypeinfo = "_ZTI", "typeinfo for "
	if s, ok := demangleItanium(typeinfo + name); ok {
		return strings.CutPrefix(s, shownTypeinfo)
	}
	return "", false
}

// maybeType rejects most names that are no mangled types: a lower-case letter is
// a type by itself, except r (restrict) and u (a vendor's type), and a suffix
// begins with a dot or an at sign.
func maybeType(name string) bool {
	if name == "" || name[0] == '_' || strings.ContainsAny(name, ".@") {
		return false
	}
	return len(name) == 1 || !isLower(name[0]) || name[0] == 'r' || name[0] == 'u'
}

// emptyPack marks a template argument pack with nothing in it while a name is
// printed.
const emptyPack = "\x00"

var dropEmptyPacks = strings.NewReplacer(", "+emptyPack, "", emptyPack, "")

// demangleItanium demangles a name of the Itanium C++ ABI.
func demangleItanium(name string) (string, bool) {
	ast, err := demangle.ToAST(name)
	if err != nil {
		return "", false
	}
	if !strings.Contains(name, "JE") && !strings.Contains(name, "nt") && !strings.Contains(name, "ad") {
		return demangle.ASTToString(ast), true
	}
	seen := make(map[demangle.AST]bool)
	ast.Traverse(func(a demangle.AST) bool {
		if seen[a] {
			return false
		}
		seen[a] = true
		likeGNU(a)
		return true
	})
	return dropEmptyPacks.Replace(demangle.ASTToString(ast)), true
}

// likeGNU changes a node that the library prints differently from GNU's demangler.
// GNU writes "> >" for closing brackets, but ">>" if the inner list ends in an
// empty pack: it deletes the pack's comma and misses the bracket before it. It
// writes !(x<y>) with parentheses, and &(f()) for the address of a function, but
// &C::f.
func likeGNU(a demangle.AST) {
	switch a := a.(type) {
	case *demangle.Template:
		if len(a.Args) == 0 {
			return
		}
		last, ok := a.Args[len(a.Args)-1].(*demangle.ArgumentPack)
		if ok && len(last.Args) == 0 {
			// After the pack, since parameters refer to arguments by number.
			a.Args = append(slices.Clip(a.Args), &demangle.Name{Name: emptyPack})
		}
	case *demangle.Unary:
		op, ok := a.Op.(*demangle.Operator)
		switch {
		case ok && op.Name == "!" && isTemplate(a.Expr):
			a.SizeofType = true // which asks for parentheses
		case ok && op.Name == "&" && isPlainFunction(a.Expr):
			a.Expr = &demangle.Special{Val: a.Expr} // which is not seen through
		}
	}
}

func isTemplate(a demangle.AST) bool {
	if q, ok := a.(*demangle.Qualified); ok {
		a = q.Name
	}
	_, ok := a.(*demangle.Template)
	return ok
}

// isPlainFunction reports whether a is a function with parameters whose name is in
// no namespace or class.
func isPlainFunction(a demangle.AST) bool {
	t, ok := a.(*demangle.Typed)
	if !ok {
		return false
	}
	_, function := t.Type.(*demangle.FunctionType)
	_, qualified := t.Name.(*demangle.Qualified)
	return function && !qualified
}

// isGlobalCtor reports whether name is _GLOBAL__I_x or _GLOBAL__D_x: code that
// runs before or after main for the file of x.
func isGlobalCtor(name string) bool {
	return len(name) > len("_GLOBAL__I_") && strings.HasPrefix(name, "_GLOBAL_") &&
		strings.IndexByte("._$", name[8]) >= 0 && strings.IndexByte("DI", name[9]) >= 0 && name[10] == '_'
}

func demangleGlobalCtor(name string) (string, bool) {
	kind, of := "constructors", name[len("_GLOBAL__I_"):]
	if name[9] == 'D' {
		kind = "destructors"
	}
	if strings.HasPrefix(of, "_Z") {
		shown, ok := demangleItanium(of)
		if !ok {
			return "", false
		}
		of = shown
	}
	return "global " + kind + " keyed to " + of, true
}

// demangleOCaml decodes the names of OCaml's native compiler: caml, a module
// with a capital, "__" for ".", and $xx for the byte xx.
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

// demangleJava decodes a JVM method descriptor, as profilers of Java write it
// into symbol tables: "Ljava/lang/Object;equals(Ljava/lang/Object;)Z" is shown as
// "java.lang.Object.equals(java.lang.Object)", without the result.
func demangleJava(name string) (string, bool) {
	end := strings.LastIndexByte(name, ')')
	if end < 0 {
		return "", false
	}
	const (
		prefix   = iota // before the class
		class           // in its name
		method          // in the method's
		types           // in the arguments
		argClass        // in the name of a class among them
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
			mode = types // perf leaves an array's brackets to the next basic type
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
