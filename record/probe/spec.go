package probe

import (
	"strconv"
	"strings"
	"unicode"
)

// kinds are the words that begin a spec.
var kinds = map[string]Kind{"kprobe": Kprobe, "kretprobe": Kretprobe, "uprobe": Uprobe, "uretprobe": Uretprobe}

// IsSpec tells whether the words of -e mean a probe.
func IsSpec(s string) bool {
	word, _, ok := strings.Cut(s, ":")
	_, known := kinds[word]
	return ok && known
}

// spec is a probe as it was asked for:
//
//	kprobe:[MODULE:]FUNC[+OFF] [ARG...]
//	uprobe:FILE:FUNC[+OFF] [ARG...]
type spec struct {
	text string
	kind Kind
	file string // or module
	name string // of the function, or a glob
	off  uint64 // bytes behind it
	args []string
}

// parse takes a spec apart.
func parse(text string) (*spec, error) {
	word, rest, _ := strings.Cut(text, ":")
	s := &spec{text: text, kind: kinds[word]}
	words := fields(rest)
	if len(words) == 0 {
		return nil, s.bad("no function behind the colon")
	}
	place := words[0]
	s.args = words[1:]
	if i := cut(place, ':'); i >= 0 {
		s.file, place = place[:i], place[i+1:]
	}
	if i := cut(place, '+'); i >= 0 {
		off, err := strconv.ParseUint(place[i+1:], 0, 64)
		if err != nil {
			return nil, s.bad("behind + there is a number of bytes, such as 0x1f")
		}
		place, s.off = place[:i], off
	}
	s.name = strings.Trim(place, `"`)
	switch {
	case s.name == "":
		return nil, s.bad("no function")
	case s.kind.User() && s.file == "":
		return nil, s.bad(s.kind.String() + ":FILE:FUNCTION is what it takes")
	}
	return s, nil
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
