package probe

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
	"gperf/record/probe/args"
)

// kinds are the prefixes of specs.
var kinds = map[string]Kind{"kprobe": Kprobe, "kretprobe": Kretprobe, "uprobe": Uprobe, "uretprobe": Uretprobe,
	"usdt": Uprobe}

// IsSpec reports whether the words of -e are a probe.
func IsSpec(s string) bool {
	word, _, ok := strings.Cut(s, ":")
	_, known := kinds[word]
	return ok && known
}

// Suggest returns a spec that is similar to words of -e with an unknown prefix; "" if there is
// none, or if they name a persistent probe (perf's probe:EVENT).
func Suggest(s string) string {
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
	words := args.Words(rest)
	if len(words) == 0 {
		return nil, s.bad("the function after the colon is missing")
	}
	place := words[0]
	s.args = words[1:]
	if i := args.Index(place, ':'); i >= 0 {
		s.file, place = unquote(place[:i]), place[i+1:]
	}
	if s.kind.User() && s.file == "" {
		return nil, s.bad(fmt.Sprintf("expected %s:%s", word, userForm(s.usdt)))
	}
	var err error
	switch {
	case s.usdt:
		s.usdtPlace(place)
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

// usdtPlace parses the place of a USDT probe.
func (s *spec) usdtPlace(place string) {
	s.name = unquote(place)
	if i := args.Index(place, ':'); i >= 0 {
		s.provider, s.name = unquote(place[:i]), unquote(place[i+1:])
	}
}

// function parses FUNC[+OFF] or SOURCE:LINE.
func (s *spec) function(place string) error {
	if m := sourceLine.FindStringSubmatch(place); m != nil && s.kind.User() {
		line, err := strconv.Atoi(m[2])
		if err != nil || line == 0 {
			return s.bad("expected a line number after the source file")
		}
		s.name, s.line = unquote(m[1]), line
		return nil
	}
	if i := args.LastIndex(place, '+'); i >= 0 && !strings.Contains(place[:i], "operator") {
		off, err := strconv.ParseUint(place[i+1:], 0, 64)
		if err != nil {
			return s.bad("expected an offset in bytes after +, such as 0x1f")
		}
		place, s.off = place[:i], off
	}
	s.name = unquote(place)
	s.literal = s.name != place
	return nil
}

// sourceLine matches a source file and a line; a C++ name contains two colons.
var sourceLine = regexp.MustCompile(`^(.*[^:]):([0-9]+)$`)

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

func (s *spec) bad(msg string) error { return &SpecError{Spec: s.text, Msg: msg} }
