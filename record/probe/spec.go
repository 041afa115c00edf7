package probe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gperf/internal/suggest"
)

// kinds are the prefixes of specs.
var kinds = map[string]Kind{"kprobe": Kprobe, "kretprobe": Kretprobe, "uprobe": Uprobe, "uretprobe": Uretprobe, "usdt": Uprobe}

// IsSpec reports whether the words of -e are a probe.
func IsSpec(s string) bool {
	word, _, ok := strings.Cut(s, ":")
	_, known := kinds[word]
	return ok && known
}

// Meant returns the spec that may have been meant by words of -e with an unknown prefix; ""
// if none is similar, or if they name a persistent probe (perf's probe:EVENT).
func Meant(s string) string {
	word, rest, ok := strings.Cut(s, ":")
	if !ok || IsSpec(s) || word == "probe" {
		return ""
	}
	if l := suggest.Names(word, slices.Sorted(maps.Keys(kinds))); len(l) > 0 {
		return l[0] + ":" + rest
	}
	return ""
}

// spec is a parsed probe:
//
//	kprobe:[MODULE:]FUNC[+OFF] [ARG...]
//	uprobe:FILE:FUNC[+OFF] [ARG...]
//	uprobe:FILE:VADDR [ARG...]
//	uprobe:FILE:SOURCE:LINE [ARG...]
//	usdt:FILE:[PROVIDER:]NAME [ARG...]
type spec struct {
	text string
	kind Kind
	usdt bool
	file string // or module
	// name is the function's, or a glob; for a probe at a line the source file's name, for
	// one at an address the address in hexadecimal, for USDT the probe's name.
	name     string
	literal  bool   // name was quoted: it is not a glob
	off      uint64 // offset from name, in bytes
	line     int    // line of the source file; 0: not a line
	provider string // of USDT; "" if unspecified
	args     []string
}

// parse parses a spec.
func parse(text string) (*spec, error) {
	word, rest, _ := strings.Cut(text, ":")
	s := &spec{text: text, kind: kinds[word], usdt: word == "usdt"}
	words := fields(rest)
	if len(words) == 0 {
		return nil, s.bad("the function after the colon is missing")
	}
	place := words[0]
	s.args = words[1:]
	if i := cutFirst(place, ':'); i >= 0 {
		s.file, place = unquote(place[:i]), place[i+1:]
	}
	if s.kind.User() && s.file == "" {
		return nil, s.bad(fmt.Sprintf("the format is %s:%s", word, userForm(s.usdt)))
	}
	var err error
	switch {
	case s.usdt:
		s.mark(place)
	default:
		err = s.function(place)
	}
	if err == nil && s.name == "" {
		err = s.bad("the function after the colon is missing")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func userForm(usdt bool) string {
	if usdt {
		return "FILE:PROVIDER:NAME"
	}
	return "FILE:FUNCTION"
}

// mark parses the place of a USDT probe.
func (s *spec) mark(place string) {
	s.name = unquote(place)
	if i := cutFirst(place, ':'); i >= 0 {
		s.provider, s.name = unquote(place[:i]), unquote(place[i+1:])
	}
}

// function parses FUNC[+OFF] or SOURCE:LINE.
func (s *spec) function(place string) error {
	if m := sourceLine.FindStringSubmatch(place); m != nil && s.kind.User() {
		line, err := strconv.Atoi(m[2])
		if err != nil || line == 0 {
			return s.bad("the source file must be followed by a line number")
		}
		s.name, s.line = unquote(m[1]), line
		return nil
	}
	if i := cut(place, '+'); i >= 0 && !strings.Contains(place[:i], "operator") {
		off, err := strconv.ParseUint(place[i+1:], 0, 64)
		if err != nil {
			return s.bad("+ must be followed by an offset in bytes, such as 0x1f")
		}
		place, s.off = place[:i], off
	}
	s.name = unquote(place)
	s.literal = s.name != place
	return nil
}

// sourceLine matches a source file and a line; a C++ name has two colons.
var sourceLine = regexp.MustCompile(`^(.*[^:]):([0-9]+)$`)

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

func (s *spec) bad(msg string) error { return &SpecError{s.text, msg} }

// walk calls f with each character of s that is neither quoted nor in brackets, until f
// returns false.
func walk(s string, f func(i int, c rune) bool) {
	depth, quoted := 0, false
	for i, c := range s {
		switch {
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("(<[", c):
			depth++
		case strings.ContainsRune(")>]", c):
			depth = max(0, depth-1)
		case depth == 0 && !f(i, c):
			return
		}
	}
}

// fields splits s at its spaces.
func fields(s string) (l []string) {
	start := 0
	take := func(end int) {
		if end > start {
			l = append(l, s[start:end])
		}
	}
	walk(s, func(i int, c rune) bool {
		if unicode.IsSpace(c) {
			take(i)
			start = i + 1
		}
		return true
	})
	take(len(s))
	return l
}

// cut returns the position of the last sep in s, -1 if there is none.
func cut(s string, sep rune) int {
	last := -1
	walk(s, func(i int, c rune) bool {
		if c == sep {
			last = i
		}
		return true
	})
	return last
}

// cutFirst returns the position of the first sep in s, -1 if there is none.
func cutFirst(s string, sep rune) int {
	first := -1
	walk(s, func(i int, c rune) bool {
		if c == sep {
			first = i
		}
		return first < 0
	})
	return first
}
