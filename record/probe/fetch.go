package probe

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gperf/record/near"
	"gperf/record/probe/vars"
)

// fetch is a value that needs no types, in the words of the kernel.
func (r *reader) fetch(w *argSpec, v string) (string, error) {
	if r.raw != nil && (v[0] == '%' || v[0] == '@' || v[0] == '$' && !strings.HasPrefix(v, "$arg") || strings.HasPrefix(v, `\"`)) {
		return "", r.bad(w, "a tracepoint has no %s; %s", v, r.seeVars())
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
			return "", r.bad(w, `behind \ is a number, or a string in quotes`)
		}
		return v, nil
	}
	return r.deref(w, v)
}

// register is one by the kernel's name.
func (r *reader) register(w *argSpec, v string) (string, error) {
	if r.machine == nil {
		return v, nil // the kernel knows
	}
	names := r.machine.Registers()
	if slices.Contains(names, v[1:]) {
		return v, nil
	}
	if l := near.Names(v[1:], names); len(l) > 0 {
		return "", r.bad(w, "no register %s: did you mean %%%s?", v, strings.Join(l, ", %"))
	}
	return "", r.bad(w, "no register %s; the kernel's names are %%%s", v, strings.Join(names, " %"))
}

var derefWord = regexp.MustCompile(`^([+-]u?(?:0x[0-9a-fA-F]+|[0-9]+))\((.+)\)$`)

// deref is what is so many bytes behind an address: +OFF(VALUE).
func (r *reader) deref(w *argSpec, v string) (string, error) {
	m := derefWord.FindStringSubmatch(v)
	if m == nil {
		return "", r.bad(w, "%s is no value: +OFFSET(VALUE) reads memory", v)
	}
	if !strings.ContainsRune(`$%@+-\`, rune(m[2][0])) {
		return "", r.bad(w, "in brackets is a register or the like (%s); of variables a->b and a[1] are what they point to", r.someRegister())
	}
	inner, err := r.fetch(w, m[2])
	return m[1] + "(" + inner + ")", err
}

// special is one of the words with a $.
func (r *reader) special(w *argSpec, v string) (string, error) {
	switch number := strings.TrimLeft(v, "$abcdefghijklmnopqrstuvwxyz"); v[:len(v)-len(number)] {
	case "$retval":
		if !r.probe.returns() {
			return "", r.bad(w, "a function's value is there when it returns: kretprobe, uretprobe")
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
	return "", r.bad(w, "unknown %s: there are $arg1 and so on, $retval, $stack, $stack0 and so on, $comm, $params, $vars", v)
}

// argument is the nth of the function at its entry. Of programs the kernel does
// not know it by that name.
func (r *reader) argument(w *argSpec, n int) (string, error) {
	switch {
	case r.raw != nil && n > len(r.raw.Args):
		return "", r.bad(w, "%s", r.seeVars())
	case r.raw != nil:
		return fmt.Sprintf("$arg%d", n), nil
	case r.spec.usdt:
		return r.markArgument(w, n)
	case r.machine == nil:
		return "", r.bad(w, "%v", errMachine)
	case r.spec.off != 0:
		return "", r.bad(w, "arguments are in their registers at the function's entry, not %d bytes behind it", r.spec.off)
	case !r.probe.Kind.User():
		fetch, err := r.machine.KernelArg(n)
		if err != nil {
			return "", r.bad(w, "%v", err)
		}
		return fetch, nil
	case r.probe.returns():
		return "", r.bad(w, "when the function returns its arguments are gone; what it returns is $retval")
	case r.moved:
		return "", r.bad(w, "the probe is behind the function's first instructions, because of the variables: name this one, too (gperf probe --vars)")
	}
	return r.machine.Arg(n), nil
}

// markArgument is the nth of a USDT probe, without its type.
func (r *reader) markArgument(w *argSpec, n int) (string, error) {
	args := r.probe.markArgs
	switch {
	case n > len(args):
		return "", r.bad(w, "the USDT probe %s has %d arguments", r.probe.Event, len(args))
	case args[n-1].fetch == "":
		return "", r.bad(w, "the kernel cannot read argument %d of the USDT probe %s, which is at %s", n, r.probe.Event, args[n-1].text)
	}
	fetch, _, _ := strings.Cut(args[n-1].fetch, ":")
	return fetch, nil
}

// markType is the type of a USDT probe's argument, by its name.
func (r *reader) markType(name string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "arg"))
	if err != nil || n < 1 || n > len(r.probe.markArgs) {
		return ""
	}
	_, typ, _ := strings.Cut(r.probe.markArgs[n-1].fetch, ":")
	return typ
}

// static is a variable by its symbol, or an address.
func (r *reader) static(w *argSpec, v string) (string, error) {
	name := v[1:]
	if name == "" {
		return "", r.bad(w, "behind @ is a symbol or an address")
	}
	if _, err := strconv.ParseInt(name, 0, 64); err == nil || !r.probe.Kind.User() {
		return v, nil
	}
	var off int64
	if i := strings.LastIndexAny(name, "+-"); i > 0 {
		n, err := strconv.ParseInt(name[i:], 0, 64)
		if err != nil {
			return "", r.bad(w, "behind the symbol is a number of bytes")
		}
		name, off = name[:i], n
	}
	at, err := vars.Symbol(r.probe.Path, r.probe.Off, name)
	if err != nil {
		return "", r.bad(w, "%v", err)
	}
	return fmt.Sprintf("@%+#x", at+off), nil
}
