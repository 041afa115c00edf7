package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"

	"gperf/cmd/gperf/cli"
	"gperf/report"
	"gperf/report/key"
	"gperf/script"
)

// helpFiles holds a description of each command and topic, and after a line "Examples:",
// the examples. {sort keys}, {fields} and {filter keys} are replaced with these lists.
//
//go:embed help/*.txt
var helpFiles embed.FS

// setHelp sets the description and the examples of a command or topic.
func setHelp(c *cobra.Command) {
	if !c.HasParent() {
		return
	}
	text, err := helpFiles.ReadFile("help/" + c.Name() + ".txt")
	if err != nil {
		panic(err) // TestHelpFits reads all
	}
	lists := strings.NewReplacer("{sort keys}", cli.List(report.Keys()),
		"{fields}", cli.List(script.FieldNames()), "{filter keys}", cli.List(key.Common()))
	about, examples, _ := strings.Cut(lists.Replace(string(text)), "\nExamples:\n")
	c.Long, c.Example = strings.TrimSpace(about), strings.Trim(examples, "\n")
}

// topics returns the help topics, which are commands that cannot run.
func topics() (l []*cobra.Command) {
	for _, t := range []struct{ name, summary string }{
		{"events", "events for gperf record -e: kinds, modifiers, terms, groups"},
		{"probes", "probes in the kernel and in programs, and their arguments"},
		{"stacks", "callchains: methods, requirements, incomplete stacks"},
		{"permissions", "rights that recording and reading need"},
		{"sort", "sort keys and columns of gperf report"},
		{"fields", "fields of gperf script"},
		{"filter", "expressions of --filter, which choose samples"},
	} {
		l = append(l, &cobra.Command{Use: t.name, Short: t.summary})
	}
	return l
}

func helpCommand() *cobra.Command {
	c := cli.NewCommand(cli.GroupOther, "help [COMMAND|TOPIC]", "print the help of a command or a topic")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Root().Help()
		}
		about := find(c.Root(), args[0])
		if about == nil {
			return exitStatus(unknown(c.Root(), args[0], c.ErrOrStderr()))
		}
		return about.Help()
	}
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, about := range c.Root().Commands() {
			if len(args) == 0 && !about.Hidden && strings.HasPrefix(about.Name(), typed) {
				names = append(names, cobra.CompletionWithDesc(about.Name(), about.Short))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}
