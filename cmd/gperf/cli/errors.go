package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"gperf/internal/suggest"
)

// FlagError converts an error of pflag to wrong use, in words of gperf, and suggests alternatives.
func FlagError(s *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(s, unknown)
	case errors.As(err, &missing):
		what, _ := pflag.UnquoteUsage(missing.GetFlag())
		return WrongUse("%s needs a value (%s)", shortName(missing.GetFlag()), what)
	case errors.As(err, &value):
		return wrongValue(value)
	}
	return WrongUse("%v", err)
}

// unknownFlag returns the error for a flag that does not exist, with similar flags.
func unknownFlag(s *pflag.FlagSet, e *pflag.NotExistError) error {
	name := e.GetSpecifiedName()
	if e.GetSpecifiedShortnames() != "" {
		return WrongUse("unknown flag: -%s", name)
	}
	if l := suggest.Names(name, flagNames(s)); len(l) > 0 {
		return WrongUse("unknown flag: --%s: did you mean --%s?", name, strings.Join(l[:min(len(l), 2)], " or --"))
	}
	return WrongUse("unknown flag: --%s", name)
}

// insteadKey is the annotation of a flag that names another flag for the values that this one does not take.
const insteadKey = "instead"

// Instead adds way, an alternative to the flag, to the errors for wrong values of the flag.
func Instead(s *pflag.FlagSet, name, way string) { s.SetAnnotation(name, insteadKey, []string{way}) }

// wrongValue returns the error for a value that a flag does not take.
func wrongValue(e *pflag.InvalidValueError) error {
	f := e.GetFlag()
	why := expected(f.Value.Type())
	switch l := f.Annotations[insteadKey]; {
	case why == "": // a function with other words
		return WrongUse("%v", e.Unwrap())
	case l != nil:
		why += ": " + l[0]
	}
	return WrongUse("%s %s: %s", shortName(f), shown(e.GetValue()), why)
}

// expected says which values a flag of this type takes, or nothing if the type's errors say that.
func expected(kind string) string {
	switch kind {
	case "bool":
		return "it takes no value"
	case "int", "int32", "int64":
		return "use a whole number"
	case "uint", "uint64":
		return "use a number from 0 on"
	case "float64":
		return "use a number"
	}
	bits, err := strconv.Atoi(strings.TrimPrefix(kind, "uint"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("use a number from 0 to %d", uint64(1)<<bits-1)
}

// shown returns a value as the user typed it.
func shown(value string) string {
	if value == "" {
		return "''"
	}
	return value
}

// shortName returns a flag as users type it: -F, or --max-stack.
func shortName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}
