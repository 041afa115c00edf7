package demangle

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	itanium "github.com/ianlancetaylor/demangle"
)

// renumber raises the numbers of substitutions in a mangled name. The library counts the name of a template in a
// dependent scope, such as is_signed of "sr3std9is_signedIT_EE5value" (std::is_signed<T>::value), as one that later
// parts may refer to. Compilers and GNU's demangler do not: the library would take all later ones for the one before.
func renumber(name string) string {
	for n, at := 0, dependentTemplate(name, 0); at > 0 && n < maxDependent; n, at = n+1, dependentTemplate(name, at+1) {
		known, ok := substitutionsBefore(name[:at])
		if !ok {
			return name
		}
		name = name[:at] + raise(name[at:], known-1)
	}
	return name
}

// maxDependent limits how often renumber reads a name. Names have a few templates in dependent scopes.
const maxDependent = 64

var tooHigh = regexp.MustCompile(`^substitution index out of range \(\d+ >= (\d+)\)`)

// substitutionsBefore returns how many substitutions the library knows where the arguments of a template begin: it
// says so when there is no such number.
func substitutionsBefore(start string) (n int, ok bool) {
	_, err := itanium.ToAST(start + "ISZZZ_E")
	if err == nil {
		return 0, false
	}
	m := tooHigh.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, false
	}
	n, err = strconv.Atoi(m[1])
	return n, err == nil
}

// dependentTemplate returns the position, from a position on, where the arguments of a template in a dependent scope
// begin: 0 if there is none.
func dependentTemplate(name string, from int) int {
	if !strings.Contains(name[from:], "sr") {
		return 0
	}
	for at := from; at < len(name); at += token(name[at:]) {
		if !strings.HasPrefix(name[at:], "sr") {
			continue
		}
		level := at + len("sr")
		if strings.HasPrefix(name[level:], "N") {
			level++
		}
		for level < len(name) && isDigit(name[level]) {
			level += token(name[level:])
		}
		if level < len(name) && name[level] == 'I' && isDigit(name[at+2]) {
			return level
		}
	}
	return 0
}

// raise adds 1 to the numbers of substitutions from a number on.
func raise(name string, from int) string {
	var b strings.Builder
	for len(name) > 0 {
		n := token(name)
		part := name[:n]
		name = name[n:]
		if i, ok := substitution(part); ok && i >= from {
			part = fmt.Sprintf("S%s_", strings.ToUpper(strconv.FormatInt(int64(i), 36)))
		}
		b.WriteString(part)
	}
	return b.String()
}

// substitution returns the number of a token such as S_, which is 0, or S1_, which is 2.
func substitution(token string) (n int, ok bool) {
	if !strings.HasPrefix(token, "S") || !strings.HasSuffix(token, "_") {
		return 0, false
	}
	digits := token[1 : len(token)-1]
	if digits == "" {
		return 0, true
	}
	v, err := strconv.ParseInt(digits, 36, 32)
	return int(v) + 1, err == nil
}

// tokens are the parts of mangled names, other than identifiers, that have more than one character or digits:
// substitutions, parameters, dimensions, literals, and the dependent scope.
var tokens = regexp.MustCompile(
	`^(?:S[0-9A-Z]*_|S[a-z]|T[0-9]*_|f[pL][0-9p]*_|A[0-9]+_|Dv[0-9]+_|L[a-z]n?[0-9a-f]+E|sr)`)

// token returns the length of the first part of a mangled name: an identifier with its length, a number, or a letter.
func token(name string) int {
	if n := len(tokens.FindString(name)); n > 0 {
		return n
	}
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	n, err := strconv.Atoi(name[:digits])
	if err != nil || digits+n > len(name) {
		return max(digits, 1)
	}
	return digits + n
}
