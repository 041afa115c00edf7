package main

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/report"
	"gperf/script"
)

// helpWidth is the width of help texts, in columns.
const helpWidth = 80

// helpFiles holds a description of each command and topic, and after a line "Examples:",
// its examples. {sort keys} and {fields} are replaced with these lists.
//
//go:embed help/*.txt
var helpFiles embed.FS

// setHelp sets the description and the examples of a command or topic.
func setHelp(c *cobra.Command) {
	text, err := helpFiles.ReadFile("help/" + c.Name() + ".txt")
	if err != nil {
		panic(err) // TestHelpFits reads all
	}
	lists := strings.NewReplacer("{sort keys}", indentedList(report.Keys()),
		"{fields}", indentedList(script.FieldNames()))
	about, examples, _ := strings.Cut(lists.Replace(string(text)), "\nExamples:\n")
	c.Long, c.Example = strings.TrimSpace(about), strings.Trim(examples, "\n")
}

// indentedList returns lines of at most helpWidth columns with all words.
func indentedList(words []string) string {
	const indent = "    "
	var lines strings.Builder
	line := indent + words[0]
	for _, w := range words[1:] {
		if len(line)+len(", ")+len(w)+len(",") > helpWidth {
			lines.WriteString(line + ",\n")
			line = indent + w
		} else {
			line += ", " + w
		}
	}
	return lines.String() + line
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
	} {
		l = append(l, &cobra.Command{Use: t.name, Short: t.summary})
	}
	return l
}

func helpCommand() *cobra.Command {
	c := newCommand(groupOther, "help [COMMAND|TOPIC]", "print the help of a command or a topic")
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

// printHelp prints the help of gperf, a command or a topic.
func printHelp(w io.Writer, c *cobra.Command) {
	switch {
	case !c.HasParent():
		printCommands(w, c)
		return
	case c.Runnable():
		fmt.Fprintf(w, "Usage: %s\n\n", strings.Join(usageLines(c), "\n       "))
	}
	fmt.Fprintln(w, c.Long)
	for _, g := range flagGroups(c) {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, f := range g.flags {
			fmt.Fprintf(w, "  %-*s  %s\n", g.width(), flagNameText(f), flagText(f))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
}

// usageLines returns the forms of a command line.
func usageLines(c *cobra.Command) []string {
	if !c.HasParent() {
		return []string{"gperf COMMAND [FLAGS]"}
	}
	lines := strings.Split(c.Use, "\n")
	for i := range lines {
		lines[i] = "gperf " + lines[i]
	}
	return lines
}

// printCommands prints the commands by group, and the topics.
func printCommands(w io.Writer, root *cobra.Command) {
	fmt.Fprintln(w, "Usage:", usageLines(root)[0])
	list := func(title, group string) {
		fmt.Fprintf(w, "\n%s\n", title)
		for _, c := range root.Commands() {
			if c.GroupID == group {
				fmt.Fprintf(w, "  %-12s  %s\n", c.Name(), c.Short)
			}
		}
	}
	for _, g := range root.Groups() {
		list(g.Title+":", g.ID)
	}
	list("Help topics:", "")
	fmt.Fprint(w, "\n`gperf help COMMAND` and `gperf help TOPIC` print more; `gperf --version` prints\nthe version.\n")
}

// flagGroup holds the visible flags of a command that have the same title.
type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// flagGroups returns the groups of a command that can run, in the order of definition.
func flagGroups(c *cobra.Command) (groups []flagGroup) {
	if !c.Runnable() {
		return nil
	}
	index := map[string]int{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		title := f.Annotations[groupKey][0]
		i, ok := index[title]
		if !ok {
			i = len(groups)
			index[title] = i
			groups = append(groups, flagGroup{title: title})
		}
		groups[i].flags = append(groups[i].flags, f)
	})
	return groups
}

// width returns the width of the names in columns.
func (g *flagGroup) width() (n int) {
	for _, f := range g.flags {
		n = max(n, len(flagNameText(f)))
	}
	return n
}

// flagNameText returns the names of a flag and of its value: "-z, --compression-level[=level]".
func flagNameText(f *pflag.Flag) string {
	text := "    --" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", --" + f.Name
	}
	switch value, _ := pflag.UnquoteUsage(f); {
	case value == "":
		return text
	case f.NoOptDefVal != "":
		return text + "[=" + value + "]"
	default:
		return text + " " + value
	}
}

// flagText returns the line that describes a flag, with its default value unless this is empty.
func flagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "0", "false", "true", "[]":
		return text
	}
	return text + " (default " + f.DefValue + ")"
}
