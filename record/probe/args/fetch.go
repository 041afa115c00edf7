package args

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/internal/suggest"
)

// fetch returns the fetcharg of a value without types.
func (r *reader) fetch(w *argSpec, v string) (string, error) {
	if r.Kind == AtRaw && (v[0] == '%' || v[0] == '@' || v[0] == '$' && !strings.HasPrefix(v, "$arg") ||
		strings.HasPrefix(v, `\"`)) {
		return "", r.badArg(w, "a tracepoint has no %s; %s", v, r.Help)
	}
	switch v[0] {
	case '$':
		return r.special(w, v)
	case '%':
		return r.register(w, v)
	case '@':
		return r.static(w, v)
	case '\\':
		if _, err := strconv.ParseInt(v[1:], 0, 64); err != nil && !(len(v) > 2 && v[1] == '"' && v[len(v)-1] == '"') {
			return "", r.badArg(w, `expected a number, or a string in quotes, after \`)
		}
		return v, nil
	}
	return r.deref(w, v)
}

// register checks the kernel's name of a register.
func (r *reader) register(w *argSpec, v string) (string, error) {
	if r.Machine == nil {
		return v, nil // the kernel checks it
	}
	names := r.Machine.Registers()
	if slices.Contains(names, v[1:]) {
		return v, nil
	}
	if l := suggest.Names(v[1:], names); len(l) > 0 {
		return "", r.badArg(w, "no register %s: did you mean %%%s?", v, strings.Join(l, ", %"))
	}
	return "", r.badArg(w, "no register %s; the registers are %%%s", v, strings.Join(names, " %"))
}

var derefWord = regexp.MustCompile(`^([+-]u?(?:0x[0-9a-fA-F]+|[0-9]+))\((.+)\)$`)

// deref returns memory at an offset from an address: +OFF(VALUE).
func (r *reader) deref(w *argSpec, v string) (string, error) {
	m := derefWord.FindStringSubmatch(v)
	if m == nil {
		return "", r.badArg(w, "%s is not a value: +OFFSET(VALUE) reads memory", v)
	}
	if !strings.ContainsRune(`$%@+-\`, rune(m[2][0])) {
		return "", r.badArg(w, "brackets need a register or similar (%s); for variables use a->b or a[1]",
			r.someRegister())
	}
	inner, err := r.fetch(w, m[2])
	return m[1] + "(" + inner + ")", err
}

// special handles the words with a $.
func (r *reader) special(w *argSpec, v string) (string, error) {
	switch number := strings.TrimLeft(v, "$abcdefghijklmnopqrstuvwxyz"); v[:len(v)-len(number)] {
	case "$retval":
		if !r.Returns {
			return "", r.badArg(w, "the return value is only available at return: use kretprobe or uretprobe")
		}
		if number == "" {
			return r.retval(), nil
		}
	case "$stack":
		if _, err := strconv.ParseUint(number, 10, 16); number == "" || err == nil {
			return v, nil
		}
	case "$comm":
		if number == "" {
			return v, nil
		}
	case "$arg":
		if n, err := strconv.ParseUint(number, 10, 8); err == nil && n > 0 {
			return r.argument(w, int(n))
		}
	}
	return "", r.badArg(w, "unknown %s: use $arg1 …, $retval, $stack, $stack0 …, $comm, $params, $vars", v)
}

// argument returns the nth argument of the function at the entry. For uprobes the kernel does not support this
// name.
func (r *reader) argument(w *argSpec, n int) (string, error) {
	switch {
	case r.Kind == AtRaw && n > r.Count:
		return "", r.badArg(w, "%s", r.Help)
	case r.Kind == AtRaw:
		return fmt.Sprintf("$arg%d", n), nil
	case r.Kind == AtUSDT:
		return r.noteArgument(w, n)
	case r.Machine == nil:
		return "", r.badArg(w, "%v", errMachine)
	case r.FuncOff != 0:
		return "", r.badArg(w, "argument registers are only known at the function's entry, not at +%d", r.FuncOff)
	case !r.Kind.user():
		fetch, err := r.Machine.KernelArg(n)
		if err != nil {
			return "", r.badArg(w, "%v", err)
		}
		return fetch, nil
	case r.Returns:
		return "", r.badArg(w, "arguments are not available at the function's return; $retval is its return value")
	case r.moved:
		return "", r.badArg(w, "the variables move the probe to after the prologue: use this argument's name, too "+
			"(gperf probe --vars)")
	}
	return r.Machine.Arg(n), nil
}

// noteArgument returns the nth argument of a USDT probe, without the type.
func (s *Site) noteArgument(w *argSpec, n int) (string, error) {
	args := s.Notes
	switch {
	case n > len(args):
		return "", s.badArg(w, "the USDT probe %s has %d arguments", s.Name, len(args))
	case args[n-1].fetch == "":
		return "", s.badArg(w, "the kernel cannot read argument %d of the USDT probe %s, at %s", n, s.Name,
			args[n-1].Text)
	}
	fetch, _, _ := strings.Cut(args[n-1].fetch, ":")
	return fetch, nil
}

// noteType returns the type of a USDT probe's argument, by name.
func (s *Site) noteType(name string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "arg"))
	if err != nil || n < 1 || n > len(s.Notes) {
		return ""
	}
	_, typ, _ := strings.Cut(s.Notes[n-1].fetch, ":")
	return typ
}

// static returns a variable by symbol, or memory at an address.
func (r *reader) static(w *argSpec, v string) (string, error) {
	name := v[1:]
	if name == "" {
		return "", r.badArg(w, "expected a symbol or address after @")
	}
	if _, err := strconv.ParseInt(name, 0, 64); err == nil || !r.Kind.user() {
		return v, nil
	}
	var off int64
	if i := strings.LastIndexAny(name, "+-"); i > 0 {
		n, err := strconv.ParseInt(name[i:], 0, 64)
		if err != nil {
			return "", r.badArg(w, "expected an offset in bytes after the symbol")
		}
		name, off = name[:i], n
	}
	at, err := Symbol(r.Path, r.Off, name)
	if err != nil {
		return "", r.badArg(w, "%v", err)
	}
	return fmt.Sprintf("@%+#x", at+off), nil
}
