package demangle

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// demangleRust demangles both of Rust's schemes in the short form: without hashes and types of constants
// (rustc-demangle's "alternate").
func demangleRust(name string) (string, bool) {
	name = trimLLVM(name)
	shown, suffix, ok := demangleRustLegacy(name)
	if !ok {
		shown, suffix, ok = demangleRustV0(name)
	}
	// Only a compiler's suffix may follow the name: ".cold", ".123".
	if !ok || suffix != "" && (suffix[0] != '.' || !printable(suffix)) {
		return "", false
	}
	return shown + suffix, true
}

// trimLLVM cuts the suffix ".llvm.1A2B", which ThinLTO appends to the names of local functions that it makes global.
func trimLLVM(name string) string {
	const llvm = ".llvm."
	i := strings.Index(name, llvm)
	if i < 0 || strings.Trim(name[i+len(llvm):], "0123456789ABCDEF@") != "" {
		return name
	}
	return name[:i]
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// cutAny cuts the first of the prefixes that s begins with.
func cutAny(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return "", false
}

// demangleRustLegacy demangles _ZN, identifiers with their lengths, E. C++ mangles a nested name without parameters
// the same way, and demangles to the same text.
func demangleRustLegacy(name string) (shown, suffix string, ok bool) {
	rest, ok := cutAny(name, "_ZN", "ZN", "__ZN")
	if !ok {
		return "", "", false
	}
	for i := 0; i < len(rest); i++ {
		if rest[i] >= utf8.RuneSelf {
			return "", "", false
		}
	}
	var parts []string
	for !strings.HasPrefix(rest, "E") {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseUint(rest[:digits], 10, 32)
		if err != nil || n >= uint64(len(rest)-digits) {
			return "", "", false
		}
		parts = append(parts, rest[digits:digits+int(n)])
		rest = rest[digits+int(n):]
	}
	if n := len(parts); n > 0 && isRustHash(parts[n-1]) {
		parts = parts[:n-1]
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("::")
		}
		writeRustIdent(&b, p)
	}
	return b.String(), rest[1:], true
}

// isRustHash reports whether an identifier is the hash at the end of a name of Rust. Other words of these letters, such
// as list::head, are names.
func isRustHash(s string) bool {
	return len(s) == len("h0123456789abcdef") && s[0] == 'h' && isHex(s[1:])
}

// rustEscapes maps the codes between dollar signs to characters that symbols cannot contain.
var rustEscapes = map[string]string{
	"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ",",
}

// writeRustIdent decodes an identifier's escapes. It writes the rest from the first invalid escape on unchanged.
func writeRustIdent(b *strings.Builder, s string) {
	if strings.HasPrefix(s, "_$") {
		s = s[1:]
	}
	for s != "" {
		i := strings.IndexAny(s, "$.")
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		if s[0] == '.' {
			if rest, ok := strings.CutPrefix(s, ".."); ok {
				b.WriteString("::")
				s = rest
			} else {
				b.WriteByte('.')
				s = s[1:]
			}
			continue
		}
		code, rest, closed := strings.Cut(s[1:], "$")
		char, ok := rustEscape(code)
		if !closed || !ok {
			break
		}
		b.WriteString(char)
		s = rest
	}
	b.WriteString(s)
}

func rustEscape(code string) (string, bool) {
	if char, ok := rustEscapes[code]; ok {
		return char, true
	}
	hex, ok := strings.CutPrefix(code, "u")
	if !ok || hex == "" || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || n > unicode.MaxRune || !utf8.ValidRune(rune(n)) || unicode.IsControl(rune(n)) {
		return "", false
	}
	return string(rune(n)), true
}
