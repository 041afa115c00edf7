package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Width is the width of help texts, in columns.
const Width = 80

// List returns lines of at most Width columns with all words.
func List(words []string) string {
	const indent = "    "
	var lines strings.Builder
	line := indent + words[0]
	for _, w := range words[1:] {
		if len(line)+len(", ")+len(w)+len(",") > Width {
			lines.WriteString(line + ",\n")
			line = indent + w
		} else {
			line += ", " + w
		}
	}
	return lines.String() + line
}

// PrintHelp prints the help of gperf, a command or a topic.
func PrintHelp(w io.Writer, c *cobra.Command) {
	switch {
	case !c.HasParent():
		printCommands(w, c)
		return
	case c.Runnable():
		fmt.Fprintf(w, "Usage: %s\n\n", strings.Join(UsageLines(c), "\n       "))
	}
	fmt.Fprintln(w, c.Long)
	for _, g := range Groups(c) {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, f := range g.Flags {
			fmt.Fprintf(w, "  %-*s  %s\n", g.width(), FlagName(f), FlagText(f))
		}
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
}

// UsageLines returns the forms of a command line.
func UsageLines(c *cobra.Command) []string {
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
	fmt.Fprintln(w, "Usage:", UsageLines(root)[0])
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

// Group holds the visible flags of a command with the same title.
type Group struct {
	Title string
	Flags []*pflag.Flag
}

// Groups returns the groups of a command that can run, in the order of definition.
func Groups(c *cobra.Command) (groups []Group) {
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
			groups = append(groups, Group{Title: title})
		}
		groups[i].Flags = append(groups[i].Flags, f)
	})
	return groups
}

// width returns the width of the names in columns.
func (g *Group) width() (n int) {
	for _, f := range g.Flags {
		n = max(n, len(FlagName(f)))
	}
	return n
}

// FlagName returns the names of a flag and of the value: "-z, --compression-level[=level]".
func FlagName(f *pflag.Flag) string {
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

// FlagText returns the line that describes a flag, with the default value unless that is empty.
func FlagText(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "0", "false", "true", "[]":
		return text
	}
	return text + " (default " + f.DefValue + ")"
}
