package probe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gperf/record/near"
)

// kinds are the words that begin a spec.
var kinds = map[string]Kind{"kprobe": Kprobe, "kretprobe": Kretprobe, "uprobe": Uprobe, "uretprobe": Uretprobe, "usdt": Uprobe}

// IsSpec tells whether the words of -e mean a probe.
func IsSpec(s string) bool {
	word, _, ok := strings.Cut(s, ":")
	_, known := kinds[word]
	return ok && known
}

// Meant is the spec that words of -e may have been meant to be, whose kind is none;
// "" if there is none like it, or they name a probe that stays (perf's probe:EVENT).
func Meant(s string) string {
	word, rest, ok := strings.Cut(s, ":")
	if !ok || IsSpec(s) || word == "probe" {
		return ""
	}
	if l := near.Names(word, slices.Sorted(maps.Keys(kinds))); len(l) > 0 {
		return l[0] + ":" + rest
	}
	return ""
}

// spec is a probe as it was asked for:
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
	// name is the function's, or a glob; of a probe at a line the source
	// file's, of one at an address that in hexadecimal, of USDT the probe's.
	name     string
	literal  bool   // name stood between quotes: it is no glob
	off      uint64 // bytes behind name
	line     int    // of the source file; 0: it is no line that is meant
	provider string // of USDT; "" if not told
	args     []string
}

// parse takes a spec apart.
func parse(text string) (*spec, error) {
	word, rest, _ := strings.Cut(text, ":")
	s := &spec{text: text, kind: kinds[word], usdt: word == "usdt"}
	words := fields(rest)
	if len(words) == 0 {
		return nil, s.bad("no function behind the colon")
	}
	place := words[0]
	s.args = words[1:]
	if i := cutFirst(place, ':'); i >= 0 {
		s.file, place = unquote(place[:i]), place[i+1:]
	}
	if s.kind.User() && s.file == "" {
		return nil, s.bad(fmt.Sprintf("%s:%s is what it takes", word, userForm(s.usdt)))
	}
	var err error
	switch {
	case s.usdt:
		s.mark(place)
	default:
		err = s.function(place)
	}
	if err == nil && s.name == "" {
		err = s.bad("no function behind the colon")
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

// mark takes the place of a USDT probe.
func (s *spec) mark(place string) {
	s.name = unquote(place)
	if i := cutFirst(place, ':'); i >= 0 {
		s.provider, s.name = unquote(place[:i]), unquote(place[i+1:])
	}
}

// function takes FUNC[+OFF] or SOURCE:LINE.
func (s *spec) function(place string) error {
	if m := sourceLine.FindStringSubmatch(place); m != nil && s.kind.User() {
		line, err := strconv.Atoi(m[2])
		if err != nil || line == 0 {
			return s.bad("behind the source file there is the number of a line")
		}
		s.name, s.line = unquote(m[1]), line
		return nil
	}
	if i := cut(place, '+'); i >= 0 && !strings.Contains(place[:i], "operator") {
		off, err := strconv.ParseUint(place[i+1:], 0, 64)
		if err != nil {
			return s.bad("behind + there is a number of bytes, such as 0x1f")
		}
		place, s.off = place[:i], off
	}
	s.name = unquote(place)
	s.literal = s.name != place
	return nil
}

// sourceLine is a source file and a line; a name of C++ has two colons.
var sourceLine = regexp.MustCompile(`^(.*[^:]):([0-9]+)$`)

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

func (s *spec) bad(msg string) error { return &SpecError{s.text, msg} }

// walk calls f with each character of s that stands neither between quotes nor
// in brackets, until f returns false.
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

// fields cuts s at its spaces.
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

// cut returns where the last sep of s is, -1 if there is none.
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

// cutFirst returns where the first sep of s is, -1 if there is none.
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
