package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxReadmeLines is the length of a README that a visitor reads completely.
const maxReadmeLines = 130

func TestDocsReadmeIsShort(t *testing.T) {
	if n := strings.Count(readDoc(t, "README.md"), "\n"); n > maxReadmeLines {
		t.Errorf("README.md has %d lines, at most %d are allowed: move details to docs/", n, maxReadmeLines)
	}
}

// TestDocsWords checks that the documents do not contain the words that CONTRIBUTING.md forbids.
func TestDocsWords(t *testing.T) {
	// In pieces, so that a search for these words does not find this line.
	deny := regexp.MustCompile(`(?i)\b(te` + `lls?|to` + `ld|who` + `ever|le` + `st|a` + `new|a` +
		`miss|be` + `hind)\b`)
	for _, name := range docs(t) {
		for i, line := range strings.Split(readDoc(t, name), "\n") {
			if word := deny.FindString(line); word != "" {
				t.Errorf("%s:%d: %q: CONTRIBUTING.md lists words to use instead", name, i+1, word)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocsLinks checks that relative links lead to a file, and fragments to a heading.
func TestDocsLinks(t *testing.T) {
	for _, name := range docs(t) {
		for _, m := range link.FindAllStringSubmatch(withoutCode(readDoc(t, name)), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := name
			if target != "" {
				path = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
				continue
			}
			if fragment != "" && !slices.Contains(headings(readDoc(t, path)), fragment) {
				t.Errorf("%s: link to %s: the file has no such heading", name, m[1])
			}
		}
	}
}

// TestDocsHeadings checks that the headings of a document differ: links lead to the first of equal ones.
func TestDocsHeadings(t *testing.T) {
	for _, name := range docs(t) {
		seen := map[string]bool{}
		for _, h := range headings(withoutCode(readDoc(t, name))) {
			if h != "" && seen[h] {
				t.Errorf("%s has two headings %s", name, h)
			}
			seen[h] = true
		}
	}
}

// TestDocsIndex checks that the README.md of each folder of documents links each document in it.
func TestDocsIndex(t *testing.T) {
	for _, name := range docs(t) {
		dir, base := filepath.Split(name)
		if !strings.HasPrefix(dir, "docs/") || base == "README.md" {
			continue
		}
		if !strings.Contains(readDoc(t, dir+"README.md"), "]("+base+")") {
			t.Errorf("%sREADME.md does not link %s", dir, base)
		}
	}
}

// walkWord matches a file or a function in the walks and the index of docs/architecture.md.
var walkWord = regexp.MustCompile("`([a-z]\\w*(?:/\\w+)*/\\w+(?:\\.bpf)?\\.(?:go|h|c))`|`(\\w+)`")

// TestDocsWalks checks that the walks and the index of docs/architecture.md name functions that exist: each is in the
// file before it.
func TestDocsWalks(t *testing.T) {
	_, walks, ok := strings.Cut(readDoc(t, "docs/architecture.md"), "\n## Five walks\n")
	if !ok {
		t.Fatal("there are no walks")
	}
	file, functions := "", 0
	for _, m := range walkWord.FindAllStringSubmatch(walks, -1) {
		if m[1] != "" {
			file = readDoc(t, m[1])
			continue
		}
		functions++
		if !defines(file, m[2]) {
			t.Errorf("the file before `%s` does not define it", m[2])
		}
	}
	if functions < 40 {
		t.Errorf("%d functions", functions)
	}
}

// defines reports whether a file of Go or C defines a function.
func defines(file, function string) bool {
	return regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|[a-z_][^=;]*\b)` + function + `\(`).MatchString(file)
}

// TestDocsCommands checks that each command line in the documents names a command of gperf and
// flags that this command's help lists.
func TestDocsCommands(t *testing.T) {
	helps := map[string]string{}
	for _, name := range docs(t) {
		for _, line := range commandLines(readDoc(t, name)) {
			command := line[0]
			if command == "help" || command == "version" {
				continue
			}
			if _, ok := helps[command]; !ok {
				var out strings.Builder
				if run([]string{command, "--help"}, &out, io.Discard) != exitOK {
					t.Errorf("%s: gperf %s: no such command", name, strings.Join(line, " "))
				}
				helps[command] = out.String()
			}
			for _, flag := range flagsOf(command, line[1:]) {
				if !helpLists(helps[command], flag) {
					t.Errorf("%s: gperf %s: the help lists no %s", name, strings.Join(line, " "), flag)
				}
			}
		}
	}
}

// docs returns the documents for users and developers, relative to the top directory.
func docs(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
		"testdata/README.md", "testdata/kernels/README.md"}
	for _, dir := range []string{"docs", "docs/design"} {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s contains %d documents, %v", dir, len(paths), err)
		}
		for _, path := range paths {
			names = append(names, dir+"/"+filepath.Base(path))
		}
	}
	return names
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inlineCode matches code in a line of text.
var inlineCode = regexp.MustCompile("`([^`]+)`")

// isCode reports whether a line of Markdown is in an indented block of code.
func isCode(line string) bool { return strings.HasPrefix(line, "    ") }

// withoutCode returns the text of a document, in which brackets are links.
func withoutCode(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !isCode(line) {
			b.WriteString(inlineCode.ReplaceAllString(line, ""))
		}
	}
	return b.String()
}

var notInFragment = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// headings returns the fragments of a document's headings, as GitHub forms them.
func headings(text string) (l []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			l = append(l, strings.ReplaceAll(notInFragment.ReplaceAllString(heading, ""), " ", "-"))
		}
	}
	return l
}

// gperfCall matches a call of gperf in a line of shell, up to the next command, redirection or comment.
var gperfCall = regexp.MustCompile(`(?:^|[\s;|&(])(?:\./)?gperf ([a-z-]+(?: (?:'[^']*'|"[^"]*"|[^\s'"|;<>&#]+)+)*)`)

// commandLines returns the words after gperf of each call in a document's code.
func commandLines(text string) (l [][]string) {
	var code []string
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "[ gperf record:"): // its summary
		case isCode(line):
			code = append(code, line)
		default:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				code = append(code, m[1])
			}
		}
	}
	for _, line := range code {
		line, _, _ = strings.Cut(line, " #") // a comment
		for _, m := range gperfCall.FindAllStringSubmatch(line, -1) {
			l = append(l, shellWords(m[1]))
		}
	}
	return l
}

var shellWord = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"]+)+`)

// shellWords splits a line at blanks outside of quotes; the quotes remain.
func shellWords(line string) []string { return shellWord.FindAllString(line, -1) }

// flagsOf returns the flags among the arguments of a command, without values: -F, --sort. The
// command that gperf record runs takes other flags.
func flagsOf(command string, args []string) (l []string) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return l
		case strings.HasPrefix(arg, "--"):
			name, _, _ := strings.Cut(arg, "=")
			l = append(l, name)
		case len(arg) > 1 && arg[0] == '-':
			l = append(l, arg[:2])
		case command == "record" && i > 0 && !strings.HasPrefix(args[i-1], "-"):
			return l // the command's name, or the arguments
		}
	}
	return l
}

// helpLists reports whether a command's help lists a flag, in full or abbreviated, or for
// --no-NAME the flag NAME.
func helpLists(help, flag string) bool {
	listed := func(flag string) bool {
		return regexp.MustCompile(`(?m)^ +(-\w, )?` + regexp.QuoteMeta(flag)).MatchString(help)
	}
	if name, ok := strings.CutPrefix(flag, "--no-"); ok && listed("--"+name) {
		return true
	}
	return listed(flag)
}

// TestDocsReadmeListsCommands checks that README.md names each command.
func TestDocsReadmeListsCommands(t *testing.T) {
	var out strings.Builder
	run([]string{"--help"}, &out, io.Discard)
	list, _, _ := strings.Cut(out.String(), "Help topics:")
	commands := regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `).FindAllStringSubmatch(list, -1)
	if len(commands) == 0 {
		t.Fatalf("gperf --help lists no commands:\n%s", list)
	}
	readme := readDoc(t, "README.md")
	for _, m := range commands {
		if !strings.Contains(readme, "`gperf "+m[1]+"`") {
			t.Errorf("README.md has no `gperf %s`", m[1])
		}
	}
}
