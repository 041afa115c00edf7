package cli

import (
	"strconv"

	"github.com/spf13/pflag"
)

// numberOrBare is a flag with a number, or without a value.
type numberOrBare struct {
	number *uint64
	bare   *bool
}

// NumberOrBare adds a flag that sets number to the flag's value, or to bare without a value.
func NumberOrBare(s *pflag.FlagSet, number *uint64, bare *bool, name, short, usage string) {
	s.VarP(numberOrBare{number, bare}, name, short, usage)
	s.SetAnnotation(name, BareKey, []string{"--" + name + "="})
}

func (f numberOrBare) Set(s string) (err error) {
	if *f.bare = s == ""; *f.bare {
		return nil
	}
	*f.number, err = strconv.ParseUint(s, 0, 64)
	return err
}
func (f numberOrBare) String() string { return "0" }
func (f numberOrBare) Type() string   { return "uint64" }
