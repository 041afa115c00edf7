package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/cmd/gperf/cli"

	"github.com/spf13/cobra"
)

//go:generate go test -run ^Test(ManPages|Differences|HousePicture)$ -update .

// TestManPages compares docs/man with the help of gperf, of commands and topics; -update
// writes the pages. They contain no date, so that the same source results in the same pages.
func TestManPages(t *testing.T) {
	dir := filepath.Join(root, "docs", "man")
	pages := map[string]string{}
	tree := newRoot(io.Discard, io.Discard)
	for _, c := range append(tree.Commands(), tree) {
		setHelp(c)
		pages[pageName(c)+".1"] = manPage(c)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for _, path := range old {
			os.Remove(path)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range pages {
		path := filepath.Join(dir, name)
		if *update {
			writeFile(t, path, text)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("docs/man/%s is not the help of gperf (%v): go generate ./cmd/gperf", name, err)
		}
	}
	for _, path := range old {
		if pages[filepath.Base(path)] == "" && !*update {
			t.Errorf("%s belongs to no command: go generate ./cmd/gperf", path)
		}
	}
}

// man prints each page without warnings, in 80 columns.
func TestManPagesRender(t *testing.T) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is missing (Debian's man-db)")
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "man", "*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", page)
			cmd.Env = append(os.Environ(), "MANWIDTH=80", "MANROFFSEQ=", "LC_ALL=C.UTF-8")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			text, err := cmd.Output()
			if err != nil || stderr.Len() > 0 || !strings.Contains(string(text), "EXAMPLES") {
				t.Errorf("%v, %q\n%s", err, &stderr, text)
			}
		})
	}
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of gperf, a command or a topic in roff.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Generated from the help by go generate ./cmd/gperf\n")
	fmt.Fprintf(&b, ".TH %s 1 \"\" gperf \"gperf manual\"\n.nh\n.ad l\n", strings.ToUpper(pageName(c)))
	summary := c.Short
	if !c.HasParent() {
		summary = "record and analyse performance data of the Linux kernel and programs"
	}
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(summary))
	if c.Runnable() || !c.HasParent() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n%s\n.fi\n", roff(strings.Join(cli.UsageLines(c), "\n")))
	}
	if c.HasParent() {
		manCommand(&b, c)
	} else {
		manRoot(&b, c)
	}
	if c.Runnable() || !c.HasParent() {
		b.WriteString(".SH \"EXIT STATUS\"\n0 for success, 1 for a failure, 2 for wrong use." +
			" gperf record exits with the exit code of its command.\n")
	}
	var also []string
	for _, other := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
		if other != c {
			also = append(also, fmt.Sprintf(".BR %s (1)", roff(pageName(other))))
		}
	}
	fmt.Fprintf(&b, ".SH \"SEE ALSO\"\n%s\n", strings.Join(also, ",\n"))
	return b.String()
}

func manCommand(b *strings.Builder, c *cobra.Command) {
	b.WriteString(".SH DESCRIPTION\n")
	manText(b, c.Long)
	if groups := cli.Groups(c); len(groups) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, g := range groups {
			fmt.Fprintf(b, ".SS %s\n", roff(g.Title))
			for _, f := range g.Flags {
				fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(cli.FlagName(f))), roff(cli.FlagText(f)))
			}
		}
	}
	fmt.Fprintf(b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
}

func manRoot(b *strings.Builder, root *cobra.Command) {
	b.WriteString(".SH DESCRIPTION\ngperf records events of the kernel and of programs with their stacks, " +
		"in perf's file format and with perf's options, and prints and counts them.\n")
	list := func(title, group string) {
		fmt.Fprintf(b, ".SS %s\n", roff(title))
		for _, c := range root.Commands() {
			if c.GroupID == group {
				fmt.Fprintf(b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(c)), roff(c.Short))
			}
		}
	}
	b.WriteString(".SH COMMANDS\n")
	for _, g := range root.Groups() {
		list(g.Title, g.ID)
	}
	list("Topics", "")
	b.WriteString(".SH EXAMPLES\n.nf\n" + roff("gperf record -g -- ./program\ngperf report\n"+
		"gperf report --format flamegraph -o cpu.html") + "\n.fi\n")
}

// manText writes paragraphs. Indented lines stay as they are.
func manText(b *strings.Builder, text string) {
	verbatim := false
	for _, line := range strings.Split(text, "\n") {
		indented := strings.HasPrefix(line, " ")
		if indented != verbatim && line != "" {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			verbatim = indented
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// roff escapes text for roff.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
