package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/cmd/gperf/cli"
	"gperf/report"
	"gperf/script"
)

// shells lists the shells for which gperf generates a completion script.
var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupOther, "completion "+strings.Join(shells, "|"),
		"print the completion script of a shell")
	c.ValidArgs = shells
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) != 1 || !slices.Contains(shells, args[0]) {
			return cli.WrongUse("name a shell: %s", strings.Join(shells, ", "))
		}
		// The script completes the program's own name, so that an installation may rename it.
		program := &cobra.Command{Use: filepath.Base(os.Args[0])}
		return cli.Buffered(c.OutOrStdout(), func(w io.Writer) error {
			switch args[0] {
			case "bash":
				return program.GenBashCompletionV2(w, true)
			case "zsh":
				return program.GenZshCompletion(w)
			}
			return program.GenFishCompletion(w, true)
		})
	}
	return c
}

// values returns the values of a flag that begin with prefix, with a description after a tab.
type values func(prefix string) []string

// fixed returns values that do not depend on the prefix.
func fixed(l ...string) values { return func(string) []string { return l } }

// flagValues holds the values of flags by command and name. Values of lists are completed
// after each comma.
var flagValues = map[string]map[string]values{
	"record": recordValues,
	"report": {
		"sort": fixed(report.Keys()...), "fields": fixed(report.Keys()...),
		"call-graph": fixed("graph", "fractal", "flat", "folded", "none", "caller", "callee", "percent", "count"),
		"format":     fixed(reportNames...),
		"percentage": fixed("absolute", "relative"),
		"pretty":     fixed("normal", "raw"),
		"rows":       fixed(rowNames...),
	},
	"script": {
		"fields": fixed(script.FieldNames()...),
		"format": fixed(formatNames...),
		"compat": fixed("7.3", "6.1"),
		"sort":   fixed("time", "latency"),
	},
	"push": {
		"rows":   fixed(rowNames...),
		"schema": fixed("clickhouse"),
	},
	"annotate": {
		"disassembler-style": fixed("att", "intel"),
		"percent-type":       fixed("local-period", "local-hits", "global-period", "global-hits"),
	},
}

// complete prints completions for an incomplete command line, as the scripts of
// completionCommand request them, and returns the exit code.
func complete(root *cobra.Command, args []string) int {
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			completeFlag(c, f)
			_, f.Usage = pflag.UnquoteUsage(f)
		})
	}
	if len(args) > 2 {
		if c := find(root, args[1]); c != nil {
			last := len(args) - 1 // not typed completely, and perhaps the value of the word before
			args = slices.Concat(args[:2], cli.Rewrite(c, args[2:])[:last-2], args[last:])
		}
	}
	root.SetArgs(args)
	if root.Execute() != nil {
		return exitError
	}
	return exitOK
}

// completeFlag defines the completion of a flag's value: known values, file names, or none.
func completeFlag(c *cobra.Command, f *pflag.Flag) {
	list := flagValues[c.Name()][f.Name]
	name, _ := pflag.UnquoteUsage(f)
	if list == nil && (name == "file" || name == "directory") {
		return // cobra completes file names by default
	}
	type directive = cobra.ShellCompDirective
	c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, directive) {
		if list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		before, last := "", typed
		if i := strings.LastIndexByte(typed, ','); i >= 0 {
			before, last = typed[:i+1], typed[i+1:]
		}
		var found []string
		for _, v := range list(last) {
			if strings.HasPrefix(v, last) {
				found = append(found, before+v)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	})
}
