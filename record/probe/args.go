package probe

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
	"gperf/record/probe/vars"
)

// Limits of the kernel (kernel/trace/trace_probe.h).
const (
	maxArgs    = 128
	maxArgName = 32
	maxFetch   = 63 // bytes of a fetcharg with its type
	maxArray   = 64
)

// args returns the probe arguments for the words after the place, in the syntax of
// perf-probe(1), PROBE ARGUMENT. If the words name variables that have their locations only
// after the function's prologue, args moves p there.
func (f *Finder) args(s *spec, p *Probe) ([]Arg, error) {
	r := reader{spec: s, probe: p, machine: vars.MachineOf(runtime.GOARCH), types: f.kernelTypes, scope: func() (*vars.Scope, error) { return f.values.scope(s, p) }}
	return r.args()
}

// reader makes fetchargs of the words of one probe, or of a tracepoint.
type reader struct {
	spec    *spec
	probe   *Probe
	raw     *Raw          // the tracepoint; nil for a probe
	machine *vars.Machine // nil: unknown
	types   func() string // the kernel's list of types; "" if unknown
	scope   func() (*vars.Scope, error)
	known   *vars.Scope // the result of scope
	moved   bool        // the probe has moved to after the function's prologue
}

// argSpec is a parsed argument: [NAME=]VALUE[:TYPE][@user].
type argSpec struct {
	text             string
	name, value, typ string
	user             bool // VALUE points to user memory
}

// args returns the arguments, after those that a USDT probe itself has.
func (r *reader) args() (l []Arg, err error) {
	var words []*argSpec
	for _, text := range r.spec.args {
		w, err := r.parse(text)
		if err != nil {
			return nil, err
		}
		words = append(words, w)
	}
	if words, err = r.expand(words); err != nil {
		return nil, err
	}
	if len(words) > maxArgs {
		return nil, r.spec.bad(fmt.Sprintf("%d arguments; the kernel supports %d", len(words), maxArgs))
	}
	// The probe must be at its final place before registers are resolved.
	for _, w := range words {
		if w.variable() {
			if err := r.find(w); err != nil {
				return nil, err
			}
		}
	}
	own := slices.DeleteFunc(slices.Clone(r.probe.Args), func(a Arg) bool {
		return r.raw == nil && slices.ContainsFunc(words, func(w *argSpec) bool { return w.name == "" && w.value == "$"+a.Name })
	})
	r.probe.Args = own // of USDT: those that no word requests under their own name
	for i, w := range words {
		read, err := r.arg(w, len(own)+i+1)
		if err != nil {
			return nil, err
		}
		for _, a := range read {
			if err := r.check(w, a, slices.Concat(own, l)); err != nil {
				return nil, err
			}
			l = append(l, a)
		}
	}
	sizeTexts(l)
	return l, nil
}

func (r *reader) bad(w *argSpec, format string, args ...any) error {
	return r.spec.bad(fmt.Sprintf("argument %q: ", w.text) + fmt.Sprintf(format, args...))
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	typeWord   = regexp.MustCompile(`^(?:[usx](?:8|16|32|64)?|f32|f64|char|string|ustring|symbol|symstr|%pd|%pD|b\d+@\d+/(?:8|16|32|64))(?:\[(\d+)\])?$`)
)

// parse parses an argument.
func (r *reader) parse(text string) (*argSpec, error) {
	w := &argSpec{text: text, value: text}
	if name, value, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, `$%@+-\"([.*&:`) {
		w.name, w.value = name, value
		if !identifier.MatchString(name) {
			return nil, r.bad(w, "a name consists of letters, digits and _, and does not begin with a digit")
		}
	}
	w.value, w.user = strings.CutSuffix(w.value, "@user")
	if i := cut(w.value, ':'); i >= 0 {
		w.value, w.typ = w.value[:i], w.value[i+1:]
		if err := r.checkType(w); err != nil {
			return nil, err
		}
	}
	if w.value == "" {
		return nil, r.bad(w, "the value is missing")
	}
	if w.user && !w.path() {
		return nil, r.bad(w, "@user is for variables; other values use u: +u0(%%di)")
	}
	return w, nil
}

func (r *reader) checkType(w *argSpec) error {
	m := typeWord.FindStringSubmatch(w.typ)
	if m == nil {
		return r.bad(w, "%q is not a type: use u8 to u64, s8 to s64, x8 to x64 (hexadecimal), u, s and x of the value's own size, f32, f64, char, "+
			"string, ustring (of a program), symbol, symstr, b1@2/8 (1 bit from bit 2 on, of 8), and arrays of them, u8[16]", w.typ)
	}
	if r.raw != nil && slices.Contains([]string{"symstr", "%pd", "%pD"}, strings.SplitN(w.typ, "[", 2)[0]) {
		return r.bad(w, "only kprobes support type %s", w.typ)
	}
	if r.probe.Kind.User() && slices.Contains([]string{"symbol", "symstr", "%pd", "%pD"}, strings.SplitN(w.typ, "[", 2)[0]) {
		return r.bad(w, "type %s is for kernel addresses; use a kprobe", w.typ)
	}
	if name := strings.SplitN(w.typ, "[", 2)[0]; newTypes[name] {
		if types := r.types(); types != "" && !slices.Contains(strings.FieldsFunc(types, notOfType), name) {
			return r.bad(w, "this kernel has no type %s; it has %s", name, types)
		}
	}
	if n, err := strconv.Atoi(m[1]); m[1] != "" && (err != nil || n < 1 || n > maxArray) {
		return r.bad(w, "an array has 1 to %d elements", maxArray)
	}
	return nil
}

// newTypes are types that older supported kernels lack.
var newTypes = map[string]bool{"char": true, "ustring": true, "symstr": true, "%pd": true, "%pD": true}

func notOfType(c rune) bool { return strings.ContainsRune(" ,/", c) }

// kernelTypes returns the kernel's list of types, from tracefs' README.
func (f *Finder) kernelTypes() string {
	if f.Tracefs == nil {
		return ""
	}
	path, err := f.Tracefs.Path("README")
	if err != nil {
		return ""
	}
	text, _ := os.ReadFile(path) // without the list, the kernel rejects unknown types
	_, types, _ := strings.Cut(string(text), "\t     type: ")
	if end := strings.Index(types, `<type>\[`); end >= 0 {
		types = types[:end]
	}
	return strings.Trim(strings.Join(strings.Fields(types), " "), ", ")
}

// isRetval reports whether the value is the return value, or part of it.
func (w *argSpec) isRetval() bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(w.value, "*"), "$retval")
	return ok && (rest == "" || strings.ContainsRune("-.[", rune(rest[0])))
}

// variable reports whether the value is a variable, or part of it.
func (w *argSpec) variable() bool {
	return !strings.ContainsRune(`$%@+-\`, rune(w.value[0])) && !w.isRetval()
}

// path reports whether the value is a variable's or return value's path.
func (w *argSpec) path() bool { return w.variable() || w.isRetval() }

// expand replaces $params by the parameters, and $vars by the parameters and the local
// variables.
func (r *reader) expand(words []*argSpec) (l []*argSpec, err error) {
	for _, w := range words {
		if w.value != "$params" && w.value != "$vars" {
			l = append(l, w)
			continue
		}
		if err := r.find(w); err != nil {
			return nil, err
		}
		for _, v := range r.known.Vars {
			if (v.Param || w.value == "$vars" && !v.Global) && r.readable(&v) {
				l = append(l, &argSpec{text: v.Name, value: v.Name})
			}
		}
	}
	return l, nil
}

// readable reports whether a variable can be read completely.
func (r *reader) readable(v *vars.Var) bool {
	if v.Err != nil {
		return false
	}
	val := r.value(v, false)
	if r.probe.Kind.User() && val.isChars("") {
		_, err := val.chars(v.Name, "")
		return err == nil
	}
	_, err := val.typed("")
	return err == nil
}

func (r *reader) value(v *vars.Var, user bool) *value {
	return &value{Where: v.Where, name: v.Name, typ: v.Type, bias: r.known.Bias, user: user}
}

// find resolves a name at the probe's place, and moves the probe if necessary.
func (r *reader) find(w *argSpec) error {
	p := r.probe
	switch {
	case r.known != nil:
		return nil
	case p.returns() && !w.isRetval():
		return r.bad(w, "variables are not available at the function's return; $retval is its return value")
	case !p.Kind.User() && p.Off != 0:
		return r.bad(w, notAtEntry+": probe the entry, or name registers (%s)", p.Off, r.someRegister())
	}
	scope, err := r.scope()
	if err != nil {
		return fmt.Errorf("probe %q: argument %q: %w", r.spec.text, w.text, err)
	}
	r.known = scope
	if p.Kind == Uprobe && scope.Off != p.Off {
		p.Off, r.moved = scope.Off, true
	}
	return nil
}

const notAtEntry = "kernel function parameters are only known at function entry, not at +%d"

// someRegister returns a register for examples in errors.
func (r *reader) someRegister() string {
	if r.machine == nil {
		return "%REGISTER"
	}
	return r.machine.Arg(1)
}

// arg returns the nth argument, followed by its length if the kernel cannot find its end.
func (r *reader) arg(w *argSpec, n int) ([]Arg, error) {
	if w.path() {
		return r.pathArg(w, n)
	}
	fetch, err := r.fetch(w, w.value)
	if err != nil {
		return nil, err
	}
	name := ""
	if (r.spec.usdt || r.raw != nil) && strings.HasPrefix(w.value, "$arg") {
		name = w.value[1:]
		w.typ = cmp.Or(w.typ, r.markType(name))
	}
	typ, float := kernelType(w.typ)
	if typ != "" {
		fetch += ":" + typ
	}
	behind := isString(w.typ) || strings.Contains(w.typ, "[")
	if strings.ContainsAny(w.value[:1], "%$") && behind && w.value != "$comm" {
		return nil, r.bad(w, "a %s needs an address, such as the one in %s: +0(%[2]s):%[1]s", w.typ, w.value)
	}
	return []Arg{{Name: w.nameOr(n, name), Fetch: fetch, Float: float}}, nil
}

// kernelType returns the kernel's name of a type, which has integers instead of
// floating-point numbers.
func kernelType(typ string) (kernel string, float bool) {
	rest, float := strings.CutPrefix(typ, "f")
	if float {
		return "x" + rest, true
	}
	return typ, false
}

// nameOr returns the requested name, or own, or, as in the kernel, a numbered name.
func (w *argSpec) nameOr(n int, own string) string {
	switch {
	case w.name != "":
		return w.name
	case own != "":
		return own
	}
	return fmt.Sprintf("arg%d", n)
}

// reserved are the names of the kernel's own fields.
var reserved = map[string]bool{"__probe_ip": true, "__probe_func": true, "__probe_ret_ip": true, "__probe_nargs": true,
	"common_type": true, "common_flags": true, "common_preempt_count": true, "common_pid": true, "common_tgid": true}

// check rejects arguments that the kernel would reject with a less specific error.
func (r *reader) check(w *argSpec, a Arg, before []Arg) error {
	switch {
	case reserved[a.Name]:
		return r.bad(w, "%s is one of the kernel's own fields: choose another name (NAME=…)", a.Name)
	case len(a.Name) > maxArgName:
		return r.bad(w, "the name %s is longer than %d characters", a.Name, maxArgName)
	case r.raw == nil && len(a.Fetch) > maxFetch:
		return r.bad(w, "the kernel's form %s is longer than %d characters", a.Fetch, maxFetch)
	}
	for _, b := range before {
		if a.Name == b.Name {
			return r.bad(w, "another argument has the name %s: choose another name (NAME=…)", a.Name)
		}
	}
	return nil
}

// pathArg returns the argument for a path that starts at a variable.
func (r *reader) pathArg(w *argSpec, n int) ([]Arg, error) {
	p, err := parsePath(w.value)
	if err != nil {
		return nil, r.bad(w, "%v", err)
	}
	v, err := r.root(w, p)
	if err != nil || v == nil { // $retval without types
		return []Arg{{Name: w.nameOr(n, ""), Fetch: r.untyped(w)}}, err
	}
	for _, s := range p.steps {
		if err := v.step(s); err != nil {
			return nil, r.bad(w, "%v", err)
		}
	}
	name := w.nameOr(n, p.fieldName(w.typ))
	if r.probe.Kind.User() && v.isChars(w.typ) {
		l, err := v.chars(name, w.typ)
		if err != nil {
			return nil, r.bad(w, "%v", err)
		}
		return l, nil
	}
	typ, float := kernelType(w.typ)
	fetch, err := v.typed(typ)
	if err != nil {
		return nil, r.bad(w, "%v", err)
	}
	return []Arg{{Name: name, Fetch: fetch, Float: float || typ == "" && v.isFloat()}}, nil
}

// untyped returns the return value of a function whose type is unknown.
func (r *reader) untyped(w *argSpec) string {
	switch {
	case isString(w.typ):
		return "+0(" + r.retval() + "):" + w.typ
	case w.typ != "":
		typ, _ := kernelType(w.typ)
		return r.retval() + ":" + typ
	}
	return r.retval()
}

// retval returns the return value's location: at an instruction that returns, it is still in
// its register.
func (r *reader) retval() string {
	if r.probe.AtReturn && r.machine != nil {
		return r.machine.Returned()
	}
	return "$retval"
}

// root returns the variable at the start of a path; nil for a return value of unknown type.
func (r *reader) root(w *argSpec, p *operand) (*value, error) {
	if w.isRetval() {
		return r.returned(w, p)
	}
	found := r.known.Lookup(p.root)
	if found == nil {
		return nil, r.bad(w, "%s", r.noSuch(p.root))
	}
	if found.Err != nil {
		return nil, r.bad(w, "%s cannot be read: %v; %s", p.root, found.Err, r.seeVars())
	}
	return r.value(found, w.user), nil
}

// returned returns the function's return value; nil if its type is unknown and not needed.
func (r *reader) returned(w *argSpec, p *operand) (*value, error) {
	if !r.probe.returns() {
		_, err := r.special(w, "$retval")
		return nil, err
	}
	if err := r.find(w); err != nil {
		if len(p.steps) > 0 {
			return nil, err
		}
		return nil, nil
	}
	t := r.known.Return
	switch {
	case t.Kind == vars.Void:
		return nil, r.bad(w, "%s returns nothing", r.known.Function)
	case t.Kind == vars.Float:
		return nil, r.bad(w, "%s returns %s in a register that probes cannot read", r.known.Function, t)
	case r.returnsChars(t):
		return r.value(&vars.Var{Name: p.root, Type: t, Where: r.machine.ReturnedStruct(t, r.probe.AtReturn)}, w.user), nil
	case t.Size > 8:
		return nil, r.bad(w, "%s returns %s, which does not fit into one register; %s has the first part", r.known.Function, t, r.retval())
	}
	return r.value(&vars.Var{Name: p.root, Type: t, Where: vars.Where{Base: r.retval()}}, w.user), nil
}

// returnsChars reports whether a user function returns a string that has its own type and
// needs more than one register.
func (r *reader) returnsChars(t *vars.Type) bool {
	_, ok := t.Chars()
	return ok && t.Size > 8 && r.machine != nil && r.probe.Kind.User()
}

func (r *reader) seeVars() string {
	if r.raw != nil {
		return fmt.Sprintf("%s has %s", r.raw.Name, strings.Join(r.raw.argNames(), ", "))
	}
	if r.probe.Kind.User() {
		return fmt.Sprintf("`gperf probe --vars %s -x %s` lists the variables", r.spec.name, r.spec.file)
	}
	return fmt.Sprintf("`gperf probe --vars %s` lists the variables", r.probe.Symbol)
}

func (r *reader) noSuch(name string) string {
	s := fmt.Sprintf("%s has no variable %s", r.known.Function, name)
	if l := suggest.Names(name, r.known.Names()); len(l) > 0 {
		s += ": did you mean " + strings.Join(l, ", ") + "?"
	}
	return s + "; " + r.seeVars()
}

var errPath = errors.New("a variable is NAME, followed by members and elements: a->b, a.b, a[1]")
