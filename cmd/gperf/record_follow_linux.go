package main

import (
	"strings"

	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/record"
)

// addFollow adds the flag for following packets.
func addFollow(s *pflag.FlagSet, o *record.Options) {
	s.VarP(argFunc(func(list string) error { return follow(o, list) }), "follow", "",
		"follow packets through kernel functions, or these `funcs`")
	s.Lookup("follow").NoOptDefVal = "*"
}

// follow adds the functions of a list to those at which packets are followed.
func follow(o *record.Options, list string) error {
	if o.Follow == nil {
		o.Follow = new(record.Follow)
	}
	if list == "*" {
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return cli.WrongUse("--follow=%s: a function's name is empty", list)
		}
		o.Follow.Functions = append(o.Follow.Functions, name)
	}
	return nil
}
