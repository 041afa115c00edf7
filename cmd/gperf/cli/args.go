package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Rewrite rewrites arguments that perf accepts and pflag does not: --no-FLAG, -zLEVEL and
// -IREGS (also after other letters, as -az3), and flags whose value may be missing. The
// first operand ends the flags of a command with StopAtOperand.
func Rewrite(c *cobra.Command, args []string) []string {
	s := c.Flags()
	_, stop := c.Annotations[stopKey]
	var given []argument
	for len(args) > 0 && args[0] != "--" && !(stop && !isFlag(args[0])) {
		a, n := argument{text: args[:1]}, 1
		switch f, bare := bareFlag(s, args); {
		case f != nil:
			a = argument{flag: f, text: []string{bare}}
		case strings.HasPrefix(args[0], "--"):
			if f := undone(s, args[0]); f != nil {
				given = undo(given, f)
				args = args[1:]
				continue
			}
			a, n = long(s, args)
		case isFlag(args[0]):
			a, n = letters(s, args)
		}
		given, args = append(given, a), args[min(n, len(args)):]
	}
	var rewritten []string
	for _, a := range given {
		rewritten = append(rewritten, a.text...)
	}
	return append(rewritten, args...)
}

// argument is a flag with a value, or an operand.
type argument struct {
	flag *pflag.Flag // that contains the value; nil: none
	text []string
	rest string // the other letters in the text: "-g" of "-gF 99"
}

// isFlag reports whether an argument is one or more flags; - is stdin.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// BareKey is the annotation of a flag that perf allows without a value if it is the last
// argument or another flag follows. It holds the replacement of the argument.
const BareKey = "bare"

// bareFlag returns the flag and the replacement of args[0] if this is a flag without a
// optional value, otherwise nil.
func bareFlag(s *pflag.FlagSet, args []string) (found *pflag.Flag, replacement string) {
	if args[0] == "-" { // stdin
		return nil, ""
	}
	value := len(args) > 1 && !strings.HasPrefix(args[1], "-")
	s.VisitAll(func(f *pflag.Flag) {
		l := f.Annotations[BareKey]
		if len(l) == 0 || args[0] != "--"+f.Name && args[0] != "-"+f.Shorthand {
			return
		}
		number := f.Value.Type() == "uint64" || f.Value.Type() == "int"
		if !value || number && (args[1] == "" || !isDigit(args[1][0])) {
			found, replacement = f, l[0]
		}
	})
	return found, replacement
}

// NegatedKey is the annotation of a flag that --no-FLAG sets to a value, which it holds. Without
// it, --no-FLAG undoes the flags of this name before it, as in perf.
const NegatedKey = "negated"

// undone returns the flag that --no-FLAG undoes, or nil.
func undone(s *pflag.FlagSet, arg string) *pflag.Flag {
	f := negated(s, arg)
	if f == nil || f.Value.Type() == "bool" || f.Annotations[NegatedKey] != nil {
		return nil
	}
	return f
}

// negated returns the flag that --no-FLAG, or --FLAG for a flag that is itself called no-FLAG, negates; or nil.
func negated(s *pflag.FlagSet, arg string) *pflag.Flag {
	name := strings.TrimPrefix(arg, "--")
	if strings.Contains(name, "=") || s.Lookup(name) != nil {
		return nil
	}
	if positive, ok := strings.CutPrefix(name, "no-"); ok {
		return s.Lookup(positive)
	}
	if f := s.Lookup("no-" + name); f != nil && f.Value.Type() == "bool" {
		return f
	}
	return nil
}

// undo returns the arguments without those that set the flag.
func undo(given []argument, f *pflag.Flag) (kept []argument) {
	for _, a := range given {
		switch {
		case a.flag != f:
			kept = append(kept, a)
		case a.rest != "":
			kept = append(kept, argument{text: []string{a.rest}})
		}
	}
	return kept
}

// long returns the flag --NAME, with a value, and the number of its arguments. --no-NAME becomes --NAME=VALUE.
func long(s *pflag.FlagSet, args []string) (a argument, n int) {
	if f := negated(s, args[0]); f != nil {
		value := "false"
		if l := f.Annotations[NegatedKey]; l != nil {
			value = l[0]
		}
		return argument{flag: f, text: []string{"--" + f.Name + "=" + value}}, 1
	}
	name, _, joined := strings.Cut(args[0][2:], "=")
	f := s.Lookup(name)
	if n = 1; f != nil && f.NoOptDefVal == "" && !joined {
		n = min(2, len(args))
	}
	return argument{flag: f, text: args[:n]}, n
}

// letters returns flags of one letter, and the number of arguments. It joins a letter and an optional value, as
// -z=LEVEL.
func letters(s *pflag.FlagSet, args []string) (a argument, n int) {
	arg := args[0]
	for i := 1; i < len(arg); i++ {
		rest := strings.TrimSuffix(arg[:i], "-")
		switch f := s.ShorthandLookup(arg[i : i+1]); {
		case f == nil:
			return argument{text: args[:1]}, 1
		case f.NoOptDefVal == "" && i == len(arg)-1:
			n = min(2, len(args))
			return argument{f, args[:n], rest}, n
		case f.NoOptDefVal == "":
			return argument{f, args[:1], rest}, 1
		case i+1 < len(arg) && takesRest(f, arg[i+1]):
			return argument{f, []string{arg[:i+1] + "=" + arg[i+1:]}, rest}, 1
		case i == len(arg)-1:
			return argument{f, args[:1], rest}, 1
		}
	}
	return argument{text: args[:1]}, 1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// takesRest reports whether the text after a letter is the letter's value: after -z a number, after
// -I and -S anything.
func takesRest(f *pflag.Flag, next byte) bool {
	switch {
	case f.Value.Type() == "bool":
		return false
	case f.Shorthand == "z":
		return isDigit(next)
	case f.Shorthand == "I", f.Shorthand == "S":
		return next != '='
	}
	return false
}

// AllowAbbreviations makes s accept an unambiguous prefix of a flag's name, as perf does.
func AllowAbbreviations(s *pflag.FlagSet) {
	names := flagNames(s)
	s.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		match := ""
		for _, n := range names {
			if n == name {
				match = n
				break
			}
			if strings.HasPrefix(n, name) {
				if match != "" {
					return pflag.NormalizedName(name) // ambiguous: pflag reports an unknown flag
				}
				match = n
			}
		}
		return pflag.NormalizedName(cmp.Or(match, name))
	})
}

// flagNames returns the sorted names of all flags.
func flagNames(s *pflag.FlagSet) (l []string) {
	s.VisitAll(func(f *pflag.Flag) { l = append(l, f.Name) })
	slices.Sort(l)
	return l
}
