package args

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// Limits of the kernel (kernel/trace/trace_probe.h).
const (
	maxArgs    = 128
	maxArgName = 32
	maxFetch   = 63 // bytes of a fetcharg with the type
	MaxArray   = 64
)

// Arg is a probe argument.
type Arg struct {
	Name  string
	Fetch string // the kernel's description of the location and type: "+112(%di):u32"
	// Float marks a floating-point number, which the kernel treats as an integer.
	Float bool
	// Text marks an array of words that contains text.
	Text bool
}

// LengthSuffix is the suffix of the argument with the length, in bytes, of another argument's text: the kernel
// reads strings up to a NUL, which strings of Go and Rust do not contain. The text argument is an array of words.
const LengthSuffix = "__len"

// SiteKind is the kind of a Site.
type SiteKind uint8

const (
	InKernel  SiteKind = iota // in a kernel function
	InProgram                 // in a file of code
	AtUSDT                    // at a USDT probe of a file of code
	AtRaw                     // at a raw tracepoint
)

// user reports whether the site is in a file of code.
func (k SiteKind) user() bool { return k == InProgram || k == AtUSDT }

// Site is a place where arguments are read.
type Site struct {
	Kind SiteKind
	Spec string // the probe as requested, for errors
	Name string // the event's, for errors
	// Returns means that the function returns: only the return value is available. AtReturn means that the site is
	// an instruction that returns, not a return probe.
	Returns, AtReturn bool
	FuncOff           uint64 // requested offset from the function's entry, in bytes
	Path              string // the file of code
	Off               uint64 // offset in Path, in bytes
	// Own are the event's arguments that need no request: the USDT probe's arguments that the kernel can read, or
	// the fields of the tracepoint.
	Own   []Arg
	Notes []NoteArg // all arguments of the USDT probe
	Count int       // number of arguments of the raw tracepoint

	Machine *Machine               // nil: unknown
	Types   func() string          // returns the kernel's list of types; "" if unknown
	Scope   func() (*Scope, error) // returns the names that are valid at the site
	Help    string                 // names the variables, or the command that lists them, for errors
}

// Resolve returns the site's arguments: the arguments in s.Own that no word requests by name, and the arguments in
// words, in the syntax of perf-probe(1), PROBE ARGUMENT. off is s.Off, or the end of the function's prologue if
// words name variables that get locations there. The error is a *SpecError if the words are wrong, a *NoDebugError
// if debug information is missing.
func (s Site) Resolve(words []string) (l []Arg, off uint64, err error) {
	r := reader{Site: s}
	if l, err = r.args(words); err != nil {
		return nil, 0, err
	}
	return append(r.Own, l...), r.Off, nil
}

func (s *Site) bad(msg string) error { return &SpecError{s.Spec, msg} }

func (s *Site) badArg(w *argSpec, format string, args ...any) error {
	return s.bad(fmt.Sprintf("argument %q: ", w.text) + fmt.Sprintf(format, args...))
}

// reader makes fetchargs of the words of one probe, or of a tracepoint.
type reader struct {
	Site
	known *Scope // the result of Site.Scope; nil: not needed yet
	moved bool   // Off is after the function's prologue
}

// argSpec is a parsed argument: [NAME=]VALUE[:TYPE][@user].
type argSpec struct {
	text             string
	name, value, typ string
	user             bool // VALUE points to user memory
}

// args returns the requested arguments, and removes from r.Own those that they replace.
func (r *reader) args(texts []string) (l []Arg, err error) {
	var words []*argSpec
	for _, text := range texts {
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
		return nil, r.bad(fmt.Sprintf("%d arguments; the kernel supports %d", len(words), maxArgs))
	}
	// The probe must be at the final place before registers are resolved.
	for _, w := range words {
		if w.variable() {
			if err := r.find(w); err != nil {
				return nil, err
			}
		}
	}
	r.Own = slices.DeleteFunc(slices.Clone(r.Own), func(a Arg) bool {
		return r.Kind == AtUSDT && slices.ContainsFunc(words,
			func(w *argSpec) bool { return w.name == "" && w.value == "$"+a.Name })
	})
	for i, w := range words {
		read, err := r.arg(w, len(r.Own)+i+1)
		if err != nil {
			return nil, err
		}
		for _, a := range read {
			if err := r.check(w, a, slices.Concat(r.Own, l)); err != nil {
				return nil, err
			}
			l = append(l, a)
		}
	}
	sizeTexts(l)
	return l, nil
}

var typeWord = regexp.MustCompile(`^(?:[usx](?:8|16|32|64)?|f32|f64|char|string|ustring|symbol|symstr|%pd|%pD|` +
	`b\d+@\d+/(?:8|16|32|64))(?:\[(\d+)\])?$`)

// parse parses an argument.
func (s *Site) parse(text string) (*argSpec, error) {
	w := &argSpec{text: text, value: text}
	if name, value, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(name, `$%@+-\"([.*&:`) {
		w.name, w.value = name, value
		if !IsName(name) {
			return nil, s.badArg(w, "a name consists of letters, digits and _, and does not begin with a digit")
		}
	}
	w.value, w.user = strings.CutSuffix(w.value, "@user")
	if i := LastIndex(w.value, ':'); i >= 0 {
		w.value, w.typ = w.value[:i], w.value[i+1:]
		if err := s.checkType(w); err != nil {
			return nil, err
		}
	}
	if w.value == "" {
		return nil, s.badArg(w, "the value is missing")
	}
	if w.user && !w.path() {
		return nil, s.badArg(w, "@user is for variables; other values use u: +u0(%%di)")
	}
	return w, nil
}

func (s *Site) checkType(w *argSpec) error {
	m := typeWord.FindStringSubmatch(w.typ)
	if m == nil {
		return s.badArg(w, "%q is not a type: use u8 to u64, s8 to s64, x8 to x64 (hexadecimal), u, s and x of the "+
			"value's own size, f32, f64, char, string, ustring (of a program), symbol, symstr, b1@2/8 (1 bit from "+
			"bit 2 on, of 8), and arrays of them, "+
			"u8[16]", w.typ)
	}
	if s.Kind == AtRaw && slices.Contains([]string{"symstr", "%pd", "%pD"}, strings.SplitN(w.typ, "[", 2)[0]) {
		return s.badArg(w, "only kprobes support type %s", w.typ)
	}
	if s.Kind.user() && slices.Contains([]string{"symbol", "symstr", "%pd", "%pD"}, strings.SplitN(w.typ, "[", 2)[0]) {
		return s.badArg(w, "type %s is for kernel addresses; use a kprobe", w.typ)
	}
	if name := strings.SplitN(w.typ, "[", 2)[0]; newTypes[name] {
		if types := s.Types(); types != "" && !slices.Contains(strings.FieldsFunc(types, notOfType), name) {
			return s.badArg(w, "this kernel has no type %s; it has %s", name, types)
		}
	}
	if n, err := strconv.Atoi(m[1]); m[1] != "" && (err != nil || n < 1 || n > MaxArray) {
		return s.badArg(w, "an array has 1 to %d elements", MaxArray)
	}
	return nil
}

// newTypes are types that older supported kernels lack.
var newTypes = map[string]bool{"char": true, "ustring": true, "symstr": true, "%pd": true, "%pD": true}

func notOfType(c rune) bool { return strings.ContainsRune(" ,/", c) }

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
func (r *reader) readable(v *Var) bool {
	if v.Err != nil {
		return false
	}
	val := r.value(v, false)
	if r.Kind.user() && val.isChars("") {
		_, err := val.chars(v.Name, "")
		return err == nil
	}
	_, err := val.typed("")
	return err == nil
}

func (r *reader) value(v *Var, user bool) *value {
	return &value{Where: v.Where, name: v.Name, typ: v.Type, bias: r.known.Bias, user: user}
}

// find resolves a name at the probe's place, and moves the probe if necessary.
func (r *reader) find(w *argSpec) error {
	switch {
	case r.known != nil:
		return nil
	case r.Returns && !w.isRetval():
		return r.badArg(w, "variables are not available at the function's return; $retval is its return value")
	case !r.Kind.user() && r.FuncOff != 0:
		return r.badArg(w, NotAtEntry+": probe the entry, or name registers (%s)", r.FuncOff, r.someRegister())
	}
	scope, err := r.Site.Scope()
	if err != nil {
		return fmt.Errorf("probe %q: argument %q: %w", r.Spec, w.text, err)
	}
	r.known = scope
	if r.Kind.user() && !r.Returns && scope.Off != r.Off {
		r.Off, r.moved = scope.Off, true
	}
	return nil
}

// NotAtEntry is the message about the parameters of a kernel function at an offset.
const NotAtEntry = "kernel function parameters are only known at function entry, not at +%d"

// someRegister returns a register for examples in errors.
func (s *Site) someRegister() string {
	if s.Machine == nil {
		return "%REGISTER"
	}
	return s.Machine.Arg(1)
}

// arg returns the nth argument, followed by the length if the kernel cannot find the end of the argument.
func (r *reader) arg(w *argSpec, n int) ([]Arg, error) {
	if w.path() {
		return r.pathArg(w, n)
	}
	fetch, err := r.fetch(w, w.value)
	if err != nil {
		return nil, err
	}
	name := ""
	if (r.Kind == AtUSDT || r.Kind == AtRaw) && strings.HasPrefix(w.value, "$arg") {
		name = w.value[1:]
		w.typ = cmp.Or(w.typ, r.noteType(name))
	}
	typ, float := kernelType(w.typ)
	if typ != "" {
		fetch += ":" + typ
	}
	memory := isString(w.typ) || strings.Contains(w.typ, "[")
	if strings.ContainsAny(w.value[:1], "%$") && memory && w.value != "$comm" {
		return nil, r.badArg(w, "a %s needs an address, such as the one in %s: +0(%[2]s):%[1]s", w.typ, w.value)
	}
	return []Arg{{Name: w.nameOr(n, name), Fetch: fetch, Float: float}}, nil
}

// kernelType returns the kernel's name of a type. Integers replace floating-point numbers.
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
func (s *Site) check(w *argSpec, a Arg, before []Arg) error {
	switch {
	case reserved[a.Name]:
		return s.badArg(w, "%s is one of the kernel's own fields: choose another name (NAME=…)", a.Name)
	case len(a.Name) > maxArgName:
		return s.badArg(w, "the name %s is longer than %d characters", a.Name, maxArgName)
	case s.Kind != AtRaw && len(a.Fetch) > maxFetch:
		return s.badArg(w, "the kernel's form %s is longer than %d characters", a.Fetch, maxFetch)
	}
	for _, b := range before {
		if a.Name == b.Name {
			return s.badArg(w, "another argument has the name %s: choose another name (NAME=…)", a.Name)
		}
	}
	return nil
}

// pathArg returns the argument for a path that starts at a variable.
func (r *reader) pathArg(w *argSpec, n int) ([]Arg, error) {
	p, err := parsePath(w.value)
	if err != nil {
		return nil, r.badArg(w, "%v", err)
	}
	v, err := r.root(w, p)
	if err != nil || v == nil { // $retval without types
		return []Arg{{Name: w.nameOr(n, ""), Fetch: r.untyped(w)}}, err
	}
	for _, s := range p.steps {
		if err := v.step(s); err != nil {
			return nil, r.badArg(w, "%v", err)
		}
	}
	name := w.nameOr(n, p.fieldName(w.typ))
	if r.Kind.user() && v.isChars(w.typ) {
		l, err := v.chars(name, w.typ)
		if err != nil {
			return nil, r.badArg(w, "%v", err)
		}
		return l, nil
	}
	typ, float := kernelType(w.typ)
	fetch, err := v.typed(typ)
	if err != nil {
		return nil, r.badArg(w, "%v", err)
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

// retval returns the return value's location: at an instruction that returns, it is still in the register.
func (s *Site) retval() string {
	if s.AtReturn && s.Machine != nil {
		return s.Machine.Returned()
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
		found = r.known.Socket(p.root)
	}
	if found == nil {
		return nil, r.badArg(w, "%s", r.noSuch(p.root))
	}
	if found.Err != nil {
		return nil, r.badArg(w, "%s cannot be read: %v; %s", p.root, found.Err, r.Help)
	}
	return r.value(found, w.user), nil
}

// returned returns the function's return value; nil if the type is unknown and not needed.
func (r *reader) returned(w *argSpec, p *operand) (*value, error) {
	if !r.Returns {
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
	case t.Kind == Void:
		return nil, r.badArg(w, "%s returns nothing", r.known.Function)
	case t.Kind == Float:
		return nil, r.badArg(w, "%s returns %s in a register that probes cannot read", r.known.Function, t)
	case r.returnsChars(t):
		return r.value(&Var{Name: p.root, Type: t, Where: r.Machine.ReturnedStruct(t, r.AtReturn)}, w.user), nil
	case t.Size > 8:
		return nil, r.badArg(w, "%s returns %s, which does not fit into one register; %s has the first part",
			r.known.Function, t, r.retval())
	}
	return r.value(&Var{Name: p.root, Type: t, Where: Where{Base: r.retval()}}, w.user), nil
}

// returnsChars reports whether a user function returns a string of a string type that needs more than one
// register.
func (r *reader) returnsChars(t *Type) bool {
	_, ok := t.Chars()
	return ok && t.Size > 8 && r.Machine != nil && r.Kind.user()
}

func (r *reader) noSuch(name string) string {
	near := suggest.Names(name, r.known.Names())
	return fmt.Sprintf("%s has no variable %s%s; %s", r.known.Function, name, suggest.DidYouMean(near), r.Help)
}

var errPath = errors.New("a variable is NAME, followed by members and elements: a->b, a.b, a[1]")
