package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gperf/cmd/gperf/cli"
	"gperf/internal/suggest"
)

// suggestion returns the end of a message about an unknown name: similar known names, or
// if there are none, allAre ("the fields are") and all known names.
func suggestion(name string, known []string, allAre string) string {
	if l := suggest.Names(name, known); len(l) > 0 {
		return suggest.DidYouMean(l[:min(len(l), 3)])
	}
	return ": " + allAre + " " + strings.Join(known, ", ")
}

// unknown reports an unknown command, and suggests a replacement or similar commands.
func unknown(root *cobra.Command, name string, stderr io.Writer) int {
	for _, other := range cli.OtherCommands {
		if other.Name == name {
			fmt.Fprintf(stderr, "gperf: there is no command %s: %s\n", name, other.Way)
			return exitUsage
		}
	}
	fmt.Fprintf(stderr, "gperf: %q is not a command of gperf", name)
	if strings.HasPrefix(name, "-") {
		fmt.Fprint(stderr, ": flags follow the command")
	} else if find(root, name) != nil {
		fmt.Fprintf(stderr, " but a help topic: gperf help %s", name)
	} else if l := likeCommand(root, name); len(l) > 0 {
		fmt.Fprintf(stderr, ": did you mean %s?", strings.Join(l, " or "))
	}
	fmt.Fprintln(stderr, "\n`gperf --help` lists them.")
	return exitUsage
}

// likeCommand returns the commands that the name abbreviates, or else similar ones.
func likeCommand(root *cobra.Command, name string) (like []string) {
	var names []string
	for _, c := range root.Commands() {
		if c.Runnable() {
			names = append(names, c.Name())
		}
	}
	for _, n := range names {
		if strings.HasPrefix(n, name) || strings.HasPrefix(name, n) {
			like = append(like, n)
		}
	}
	if len(like) > 0 {
		return like
	}
	l := suggest.Names(name, names)
	return l[:min(len(l), 2)]
}
