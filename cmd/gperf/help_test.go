package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"gperf/cmd/gperf/cli"
	"gperf/record/event"
)

// The help of gperf, of all commands and of all topics fits a terminal.
func TestHelpFits(t *testing.T) {
	fits := func(args ...string) {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			text, _ := gperf(t, args...)
			if !strings.HasSuffix(text, "\n") || strings.Contains(text, "\n\n\n") {
				t.Errorf("%q", text)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(line) - 1; n > cli.Width || strings.Contains(line, "\t") ||
					strings.HasSuffix(line, " \n") {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		})
	}
	fits("help")
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		fits("help", c.Name())
		setHelp(c)
		if c.Example == "" {
			t.Errorf("the help of %s has no examples", c.Name())
		}
	}
}

// Examples of the help use existing commands and flags.
func TestHelpExamples(t *testing.T) {
	root := newRoot(io.Discard, io.Discard)
	for _, c := range root.Commands() {
		setHelp(c)
		for line := range strings.Lines(c.Example) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "gperf" {
				continue
			}
			named := find(root, words[1])
			if named == nil || !named.Runnable() {
				t.Errorf("%s: gperf has no command %s", line, words[1])
				continue
			}
			for _, w := range words[2:] {
				if name, long := strings.CutPrefix(w, "--"); w == "--" {
					break
				} else if name, _, _ = strings.Cut(name, "="); long && named.Flags().Lookup(name) == nil {
					t.Errorf("%s: gperf %s has no flag --%s", line, words[1], name)
				}
			}
		}
	}
}

// The topic events describes all kinds of events, and topics are no commands.
func TestHelpTopics(t *testing.T) {
	text, _ := gperf(t, "help", "events")
	for _, kind := range event.Kinds {
		if !strings.Contains(text, "\n    "+string(kind)+" ") {
			t.Errorf("gperf help events does not describe %s", kind)
		}
	}
	var out, stderr bytes.Buffer
	if code := run([]string{"events"}, &out, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "gperf help events") {
		t.Errorf("gperf events: exit code %d, %s", code, &stderr)
	}
}
