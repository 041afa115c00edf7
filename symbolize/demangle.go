package symbolize

import (
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

// demangleCXX demangles what the C++ ABI's __cxa_demangle does. Perf passes it
// every name, and it takes one that is not a mangled name for a mangled type: a
// C function called f is shown as "float", one called v as "void".
func demangleCXX(name string) (string, bool) {
	if strings.HasPrefix(name, "_Z") || isGlobalCtor(name) {
		s, err := demangle.ToString(name, demangle.NoRust)
		return s, err == nil
	}
	const typeinfo, shownTypeinfo = "_ZTI", "typeinfo for "
	if s, err := demangle.ToString(typeinfo+name, demangle.NoRust); err == nil {
		return strings.CutPrefix(s, shownTypeinfo)
	}
	return "", false
}

// isGlobalCtor reports whether name is _GLOBAL__I_x or _GLOBAL__D_x: code that
// runs before or after main for the file of x.
func isGlobalCtor(name string) bool {
	const prefix = "_GLOBAL_"
	return len(name) > len(prefix)+2 && strings.HasPrefix(name, prefix) &&
		strings.IndexByte("._$", name[8]) >= 0 && strings.IndexByte("DI", name[9]) >= 0 && name[10] == '_'
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
// "class java.lang.Object.equals(class java.lang.Object)", without the result.
func demangleJava(name string) (string, bool) {
	end := strings.LastIndexByte(name, ')')
	if end < 0 {
		return "", false
	}
	const (
		prefix = iota // before the class
		class         // in its name
		method        // in the method's
		types         // in the arguments
	)
	var b strings.Builder
	mode, arrays, args := prefix, 0, 0
	closeArrays := func() {
		b.WriteString(strings.Repeat("[]", arrays))
		arrays = 0
	}
	for i := 0; i <= end; i++ {
		c := name[i]
		switch {
		case c == 'L' && (mode == prefix || mode == types):
			if mode == types {
				if args > 0 {
					b.WriteString(", ")
				}
				args++
			} else {
				mode = class
			}
			b.WriteString("class ")
		case mode == types && javaTypes[c] != "":
			if args > 0 {
				b.WriteString(", ")
			}
			b.WriteString(javaTypes[c])
			closeArrays()
			args++
		case mode == types && c == 'V':
			b.WriteString("void")
			closeArrays()
		case c == '[':
			if mode != types {
				return "", false
			}
			arrays++
		case c == '(':
			if mode != method {
				return "", false
			}
			b.WriteByte(c)
			mode = types
		case c == ')':
			if mode != types {
				return "", false
			}
			b.WriteByte(c)
			args = 0
		case c == ';':
			if mode != class && mode != types {
				return "", false
			}
			if i+1 < len(name) && isAlpha(name[i+1]) {
				b.WriteByte('.')
			}
			if mode == class {
				mode = method
			}
		case c == '/':
			if mode != class && mode != types {
				return "", false
			}
			b.WriteByte('.')
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
