package args

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// operand is a variable with a path of members and elements: a->b.c[1].
type operand struct {
	root  string
	steps []step
}

// step is one step of a path.
type step struct {
	op    string // ".", "->", "["
	name  string
	index int64
}

var (
	pathRoot = regexp.MustCompile(`^\$?[A-Za-z_~][A-Za-z0-9_]*`)
	pathStep = regexp.MustCompile(`^(?:(->|\.)([A-Za-z_][A-Za-z0-9_]*)|(\[)([0-9]+)\])`)
)

// maxSteps exceeds the kernel's limit (FETCH_INSN_MAX), because members of a struct need no
// step in the kernel.
const maxSteps = 64

// parsePath parses a path. *a is a[0].
func parsePath(s string) (*operand, error) {
	rest := strings.TrimLeft(s, "*")
	stars := len(s) - len(rest)
	p := &operand{root: pathRoot.FindString(rest)}
	if p.root == "" {
		return nil, errPath
	}
	rest = rest[len(p.root):]
	for rest != "" {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, errPath
		}
		index, err := strconv.ParseInt("0"+m[4], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("element number %s is too large", m[4])
		}
		p.steps = append(p.steps, step{m[1] + m[3], m[2], index})
		rest = rest[len(m[0]):]
	}
	for range stars {
		p.steps = append(p.steps, step{op: "["})
	}
	if len(p.steps) > maxSteps {
		return nil, fmt.Errorf("more than %d steps", maxSteps)
	}
	return p, nil
}

// fieldName returns perf's name for the argument: the last member's, or the variable's with
// the type that it is cast to ("s_string").
func (p *operand) fieldName(typ string) string {
	for _, s := range slices.Backward(p.steps) {
		if s.name != "" {
			return s.name
		}
	}
	if strings.HasPrefix(p.root, "$") {
		return "" // the name is a number
	}
	if t := Word(typ); t != "" && len(p.steps) == 0 {
		return p.root + "_" + t
	}
	return p.root
}

// value is the value that a path leads to.
type value struct {
	Where
	name string // the path so far, for messages
	typ  *Type
	bias int64 // see Scope
	// Bits bits from Bit on are selected, of a bit-field in memory, or of a register that
	// holds a struct; 0: all.
	bit, bits int64
	user      bool // it points to user memory
	followed  bool // a pointer was followed
}

// fetch returns the value's fetcharg.
func (v *value) fetch() string {
	switch {
	case !v.Mem:
		return v.Base
	case v.Base == "":
		return fmt.Sprintf("@%+#x", v.Off+v.bias)
	}
	s := strconv.FormatInt(v.Off, 10)
	sign := "+"
	if v.Off < 0 {
		sign, s = "-", s[1:]
	}
	if v.user && v.followed {
		sign += "u"
	}
	return sign + s + "(" + v.Base + ")"
}

// whole reports whether all bits of Where are selected.
func (v *value) whole() bool { return v.bits == 0 || !v.Mem && v.bit == 0 && v.bits == 8*v.typ.Size }

// follow goes to the pointer's target, or to the nth element after it.
func (v *value) follow(n int64) error {
	if !v.whole() || v.Pieces != nil {
		return fmt.Errorf("%s is a pointer in several parts, which probes cannot follow", v.name)
	}
	elem := v.typ.Elem()
	if n != 0 && elem.Size == 0 {
		return fmt.Errorf("%s points to %s of unknown size", v.name, elem)
	}
	v.Where = Where{Base: v.fetch(), Mem: true, Off: n * elem.Size}
	v.bit, v.bits = 0, 0
	v.typ, v.followed = elem, true
	return nil
}

func (v *value) step(s step) error {
	if s.op == "[" {
		return v.element(s.index)
	}
	switch {
	case s.op == "->" && v.typ.Kind == Struct:
		return fmt.Errorf("%s is not a pointer but %s: write %s.%s", v.name, v.typ, v.name, s.name)
	case s.op == "." && v.typ.Kind == Pointer:
		return fmt.Errorf("%s is a pointer (%s): write %s->%s", v.name, v.typ, v.name, s.name)
	case s.op == "->" && v.typ.Kind == Pointer:
		if err := v.follow(0); err != nil {
			return err
		}
	}
	if err := v.member(s.name); err != nil {
		return err
	}
	v.name += s.op + s.name
	return nil
}

func (v *value) element(n int64) error {
	switch v.typ.Kind {
	case Pointer:
		if err := v.follow(n); err != nil {
			return err
		}
	case Array:
		if v.typ.Len > 0 && n >= v.typ.Len {
			return fmt.Errorf("%s has %d elements, the first is [0]", v.name, v.typ.Len)
		}
		size := v.typ.Elem().Size
		if size == 0 {
			return fmt.Errorf("the size of %s's elements is not known", v.name)
		}
		v.typ = v.typ.Elem()
		if err := v.part(8*n*size, 0); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither an array nor a pointer but %s", v.name, v.typ)
	}
	v.name += fmt.Sprintf("[%d]", n)
	return nil
}

// member goes to a member of the struct.
func (v *value) member(name string) error {
	if v.typ.Kind == Unknown {
		return fmt.Errorf("%s is %s, whose members are unknown here", v.name, v.typ)
	}
	if v.typ.Kind != Struct {
		return fmt.Errorf("%s is not a struct or union but %s", v.name, v.typ)
	}
	f, ok := v.typ.Field(name)
	if !ok {
		names := v.typ.FieldNames()
		if l := suggest.Names(name, names); len(l) > 0 {
			return fmt.Errorf("%s has no member %s: did you mean %s?", v.typ, name, strings.Join(l, ", "))
		}
		const many = 20
		if len(names) > many {
			names = append(names[:many:many], "…")
		}
		return fmt.Errorf("%s has no member %s; it has %s", v.typ, name, strings.Join(names, ", "))
	}
	v.typ = f.Type
	return v.part(f.Bit, f.Bits)
}

// part goes to the part at an offset of bit bits, whose type is already set.
func (v *value) part(bit, bits int64) error {
	switch {
	case v.Pieces != nil:
		return v.piece(bit, bits)
	case !v.Mem:
		v.bit += bit
		if v.bits = bits; bits == 0 {
			v.bits = 8 * v.typ.Size
		}
	case bits == 0:
		v.Off += bit / 8
	default:
		unit := max(8, 8*v.typ.Size)
		if bit%unit+bits > unit {
			unit = 8 // a packed bit-field
		}
		v.Off += bit / unit * unit / 8
		v.bit, v.bits = bit%unit, bits
	}
	return nil
}

// piece goes to a part of a value that is stored in several places.
func (v *value) piece(bit, bits int64) error {
	for _, p := range v.Pieces {
		if bit >= 8*p.Size {
			bit -= 8 * p.Size
			continue
		}
		if v.typ.Size > p.Size {
			break
		}
		if p.Err != nil {
			return fmt.Errorf("%s has no location here: %w", v.name, p.Err)
		}
		v.Where = p.Where
		return v.part(bit, bits)
	}
	return fmt.Errorf("%s is in several places, and this part is split between them", v.name)
}

func isString(typ string) bool { return typ == "string" || typ == "ustring" || typ == "symstr" }

// typed returns the value with a type: the cast, or the value's own type.
func (v *value) typed(cast string) (string, error) {
	if v.Pieces != nil && v.typ.Kind != Struct {
		return "", fmt.Errorf("%s is in several places", v.name)
	}
	switch {
	case isString(cast):
		return v.text(cast)
	case !v.whole():
		return v.bitField(cast)
	case strings.Contains(cast, "["):
		return v.elements(cast)
	case cast == "" && v.typ.Kind == Array:
		return v.array()
	case len(cast) == 1 || cast == "":
		t, err := v.own(v.typ, cast)
		return v.fetch() + ":" + t, err
	case v.typ.Kind == Struct && !v.Mem && v.typ.Size > 8:
		return "", v.needsMember()
	}
	return v.fetch() + ":" + cast, nil
}

func (v *value) needsMember() error {
	l := v.typ.FieldNames()
	if len(l) > 5 {
		l = append(l[:5:5], "…")
	}
	return fmt.Errorf("%s is a %s: name a member (%s)", v.name, v.typ, strings.Join(l, ", "))
}

// own returns the fetcharg's type for a type: perf's choice, decimal for signed types, else
// hexadecimal, unless letter (u, s or x) is set.
func (v *value) own(t *Type, letter string) (string, error) {
	switch {
	case t.Kind == Struct:
		return "", v.needsMember()
	case t.Size != 1 && t.Size != 2 && t.Size != 4 && t.Size != 8:
		return "", fmt.Errorf("%s is %s, whose %d bytes probes cannot read at once", v.name, t, t.Size)
	case letter == "" && t.Kind == Int && t.Signed:
		letter = "s"
	case letter == "":
		letter = "x"
	}
	return letter + strconv.FormatInt(8*t.Size, 10), nil
}

// isFloat reports whether the value is a floating-point number, or an array of them.
func (v *value) isFloat() bool {
	t := v.typ
	if t.Kind == Array {
		t = t.Elem()
	}
	return t.Kind == Float
}

// isChars reports whether the value is to be read as a string of a string type: if the cast requests it, or,
// without a cast, if it is text and not a pointer.
func (v *value) isChars(cast string) bool {
	t := v.typ
	if cast == "" {
		c, ok := t.Chars()
		return ok && c.Text
	}
	if t.Kind == Pointer {
		t = t.Elem()
	}
	_, ok := t.Chars()
	return ok && (cast == "string" || cast == "ustring")
}

// chars reads a string of a string type, and the length if no NUL ends the string.
func (v *value) chars(name, cast string) ([]Arg, error) {
	if v.typ.Kind == Pointer {
		if err := v.follow(0); err != nil {
			return nil, err
		}
	}
	c, _ := v.typ.Chars()
	start, length := *v, *v
	if err := start.members(c.Start); err != nil {
		return nil, err
	}
	text, err := start.text(cmp.Or(cast, "string"))
	if err != nil || c.Length == nil {
		return []Arg{{Name: name, Fetch: text}}, err
	}
	if err := length.members(c.Length); err != nil {
		return nil, err
	}
	text, _, _ = strings.Cut(text, ":")
	n, err := length.typed("u")
	return []Arg{{Name: name, Fetch: text, Text: true}, {Name: name + LengthSuffix, Fetch: n}}, err
}

// Limits of texts with a length, in bytes: of one, and of all in a probe. On Linux 5.10 an event is limited to 2
// KiB.
const (
	maxText     = 256
	maxAllTexts = 1536
)

// sizeTexts divides the space between the texts with a length.
func sizeTexts(l []Arg) {
	n := 0
	for _, a := range l {
		if a.Text {
			n++
		}
	}
	for i := range l {
		if a := &l[i]; a.Text {
			a.Fetch += fmt.Sprintf(":x64[%d]", max(1, min(maxText, maxAllTexts/n)/8))
		}
	}
}

// members goes to a nested member.
func (v *value) members(names []string) error {
	for _, name := range names {
		if err := v.member(name); err != nil {
			return err
		}
		v.name += "." + name
	}
	return nil
}

// text returns the string that the value is, or points to.
func (v *value) text(cast string) (string, error) {
	if v.typ.Kind != Pointer && v.typ.Kind != Array {
		return "", fmt.Errorf("%s is %s; a string needs a pointer or an array", v.name, v.typ)
	}
	if elem := v.typ.Elem(); elem.Size != 1 && elem.Kind != Void && cast != "symstr" {
		return "", fmt.Errorf("%s is %s; a string consists of characters", v.name, v.typ)
	}
	if v.typ.Kind == Pointer {
		if err := v.follow(0); err != nil {
			return "", err
		}
	}
	return v.fetch() + ":" + cast, nil
}

// elements returns the elements of an array, or of a pointer's target: perf would split the
// pointer itself.
func (v *value) elements(cast string) (string, error) {
	if v.typ.Kind == Pointer {
		if err := v.follow(0); err != nil {
			return "", err
		}
	}
	if !v.Mem {
		return "", fmt.Errorf("%s is %s; %s needs a pointer or an array", v.name, v.typ, cast)
	}
	return v.fetch() + ":" + cast, nil
}

// array returns all elements of the array, or a string if they are characters.
func (v *value) array() (string, error) {
	elem, n := v.typ.Elem(), v.typ.Len
	if elem.Kind == Int && elem.Name == "char" {
		return v.text("string")
	}
	t, err := v.own(elem, "")
	if err != nil {
		return "", err
	}
	if n < 1 || n > MaxArray {
		return "", fmt.Errorf("%s has %d elements; the kernel reads 1 to %d: name one (%s[0]), or a type (%s:%s[8])",
			v.name, n, MaxArray, v.name, v.name, t)
	}
	return fmt.Sprintf("%s:%s[%d]", v.fetch(), t, n), nil
}

// bitField returns a bit-field in memory or in a register.
func (v *value) bitField(cast string) (string, error) {
	if cast != "" {
		return "", fmt.Errorf("%s is a bit-field, which cannot have a type", v.name)
	}
	if v.typ.Kind == Struct {
		return "", v.needsMember()
	}
	unit := 8 * v.typ.Size
	if !v.Mem {
		unit = 64
	}
	for unit < v.bit+v.bits {
		unit *= 2
	}
	if unit > 64 || unit < 8 {
		return "", fmt.Errorf("%s is a bit-field that crosses 8 bytes", v.name)
	}
	return fmt.Sprintf("%s:b%d@%d/%d", v.fetch(), v.bits, v.bit, unit), nil
}
