package probe

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"

	"gperf/record/probe/args"
	"gperf/record/probe/program"
)

// Where is the target of perf probe's definitions: a file of code, a kernel module, or, by
// default, the kernel.
type Where struct {
	Path   string // -x
	Module string // -m: name or file of the module
	Source string // -s: directory of the source files
}

// ruled matches a definition of perf probe: [[GROUP:]EVENT=]PLACE.
var ruled = regexp.MustCompile(`^(?:([A-Za-z_]\w*):)?([A-Za-z_]\w*)=([^=].*)$`)

// inSource matches a PLACE with a line: of a file, or of a function.
var inSource = regexp.MustCompile(`^([^:]+):(\d+)$`)

// Define returns the probes of a definition: perf probe's [[GROUP:]EVENT=]FUNC[+OFF|%return]
// [ARG…], or words of -e (IsSpec).
func (r *Resolver) Define(text string, where Where) ([]*Probe, error) {
	if IsSpec(text) {
		return r.Find(text)
	}
	group, event, spec, err := translate(text, where)
	if err != nil {
		return nil, err
	}
	l, err := r.Find(spec)
	if err != nil {
		var bad *SpecError
		if errors.As(err, &bad) {
			bad.Spec = text // the text as given
		}
		return nil, err
	}
	for _, p := range l {
		if group != "" {
			p.Group = group
		}
		if event != "" {
			p.Event = event
		}
	}
	return l, nil
}

// List returns the lines of a definition of perf probe --line that can be probed, in the file of
// where. The error is a *SpecError if the definition is wrong, an *args.NoDebugError without
// debug information.
func (r *Resolver) List(def string, where Where) (*program.Listing, error) {
	if where.Path == "" {
		return nil, &args.NoDebugError{File: "the kernel", Lack: "lines of source files"}
	}
	return r.locator().List(def, where.Path)
}

// translate translates perf's definition into words of -e.
func translate(text string, where Where) (group, event, spec string, err error) {
	bad := func(msg string) error { return &SpecError{Spec: text, Msg: msg} }
	words := args.Words(text)
	if len(words) == 0 {
		return "", "", "", bad("no function")
	}
	place := words[0]
	if m := ruled.FindStringSubmatch(place); m != nil {
		group, event, place = m[1], m[2], m[3]
	}
	kind := "probe"
	if rest, ok := strings.CutSuffix(place, "%return"); ok {
		kind, place = "retprobe", rest
	} else if rest, ok := strings.CutSuffix(place, "%ret"); ok {
		kind, place = "retprobe", rest
	}
	if where.Path == "" {
		if inSource.MatchString(place) || strings.ContainsAny(place, "@;") {
			return "", "", "", bad("source lines need the kernel's debug information, which gperf does not read: use " +
				"FUNCTION+OFFSET")
		}
		words[0] = place
		spec = "k" + kind + ":"
		if where.Module != "" {
			spec += moduleName(where.Module) + ":"
		}
	} else {
		words[0] = place
		spec = "u" + kind + ":" + quote(where.Path) + ":"
	}
	return group, event, spec + strings.Join(words, " "), nil
}

// moduleName returns the kernel's name of a module, which may be given as a file.
func moduleName(s string) string {
	if strings.Contains(s, "/") {
		s, _, _ = strings.Cut(filepath.Base(s), ".ko")
	}
	return strings.ReplaceAll(s, "-", "_")
}

// quote quotes a file name that contains delimiters.
func quote(path string) string {
	if strings.ContainsAny(path, " :([<") {
		return `"` + path + `"`
	}
	return path
}
