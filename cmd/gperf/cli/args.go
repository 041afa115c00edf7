package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/internal/suggest"
)

// Rewrite rewrites arguments that perf accepts and pflag does not: --no-FLAG, -zLEVEL and
// -IREGS (also after other letters, as -az3), and flags whose value may be missing. The
// first operand ends the flags of a command with StopAtOperand.
func Rewrite(c *cobra.Command, args []string) []string {
	s, args := c.Flags(), slices.Clone(args)
	_, stop := c.Annotations[stopKey]
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		another := false
		name, long := strings.CutPrefix(args[i], "--")
		switch bare := bareFlag(s, args[i:]); {
		case bare != "":
			args[i] = bare
		case long:
			args[i], another = negated(s, name)
		case len(args[i]) > 1 && args[i][0] == '-':
			args[i], another = joinValue(s, args[i])
		case stop:
			return args
		}
		if another {
			i++
		}
	}
	return args
}

// BareKey is the annotation of a flag that perf allows without a value if it is the last
// argument or another flag follows. It holds the replacement of the argument.
const BareKey = "bare"

// bareFlag returns the replacement of args[0] if it is a flag without its optional value,
// otherwise "".
func bareFlag(s *pflag.FlagSet, args []string) string {
	if args[0] == "-" { // stdin
		return ""
	}
	value := len(args) > 1 && !strings.HasPrefix(args[1], "-")
	replacement := ""
	s.VisitAll(func(f *pflag.Flag) {
		l := f.Annotations[BareKey]
		if len(l) == 0 || args[0] != "--"+f.Name && args[0] != "-"+f.Shorthand {
			return
		}
		number := f.Value.Type() == "uint64" || f.Value.Type() == "int"
		if !value || number && (args[1] == "" || !isDigit(args[1][0])) {
			replacement = l[0]
		}
	})
	return replacement
}

// negated returns --NAME, or --FLAG=false if the name negates FLAG. It reports whether the
// next argument is the flag's value.
func negated(s *pflag.FlagSet, name string) (arg string, another bool) {
	f := s.Lookup(name)
	if f != nil || strings.Contains(name, "=") {
		return "--" + name, f != nil && f.NoOptDefVal == ""
	}
	positive, negative := strings.CutPrefix(name, "no-")
	if !negative {
		positive = "no-" + name
	}
	if f := s.Lookup(positive); f != nil && f.Value.Type() == "bool" {
		return "--" + positive + "=false", false
	}
	return "--" + name, false
}

// joinValue joins a letter and its optional value, as -z=LEVEL. It reports whether the next
// argument is the last letter's value.
func joinValue(s *pflag.FlagSet, arg string) (joined string, another bool) {
	for i := 1; i < len(arg); i++ {
		f := s.ShorthandLookup(arg[i : i+1])
		switch {
		case f == nil:
			return arg, false
		case f.NoOptDefVal == "":
			return arg, i == len(arg)-1
		case i+1 < len(arg) && takesRest(f, arg[i+1]):
			return arg[:i+1] + "=" + arg[i+1:], false
		}
	}
	return arg, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// takesRest reports whether the text after a letter is its value: after -z a number, after
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
	names := FlagNames(s)
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
		if match == "" {
			match = name
		}
		return pflag.NormalizedName(match)
	})
}

// FlagNames returns the sorted names of all flags.
func FlagNames(s *pflag.FlagSet) (l []string) {
	s.VisitAll(func(f *pflag.Flag) { l = append(l, f.Name) })
	slices.Sort(l)
	return l
}

// FlagError converts an error of pflag to wrong use, and suggests similar flags.
func FlagError(s *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		if l := suggest.Names(unknown.GetSpecifiedName(), FlagNames(s)); len(l) > 0 {
			return WrongUse("%v: did you mean --%s?", err, strings.Join(l[:min(len(l), 2)], " or --"))
		}
	}
	return WrongUse("%v", err)
}
