package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completeLine returns gperf's completions for the words of a line; the last is incomplete.
func completeLine(t *testing.T, words ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if code := run(append([]string{"__complete"}, words...), &out, io.Discard); code != exitOK {
		t.Fatalf("%v: exit code %d", words, code)
	}
	var l []string
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		l = append(l, name)
	}
	return l
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want, not string }{
		{"re", "record report", "list"},
		{"help pe", "permissions", "record"},
		{"record --call-g", "--call-graph", "--cpu"},
		{"record -g -e page-fa", "page-faults", "cpu-clock"},
		{"record -e cpu-clock,page-fa", "cpu-clock,page-faults", "page-faults"},
		{"record -z3 --no-inherit --call-graph dw", "dwarf dwarf,copy", "fp"},
		{"report -g --sort comm,sym", "comm,symbol comm,symoff", "comm,dso"},
		{"report -g ca", "caller callee", "graph"},
		{"report --call-graph ", "graph caller", ":0"},
		{"script --pid ", ":4", ":0"},
		{"report --no-child", "--no-children", "--children=false"},
		{"report --format f", "folded flamegraph", "text"},
		{"script -F co", "comm", "tid"},
		{"completion ", "bash zsh fish", "powershell"},
		{"list k", "kprobe", "uprobe"},
		{"record -- ls --call-g", "", "--call-graph"},
		{"record -p ", ":4", "1"}, // no file names
		{"record -o ", ":0", ":4"},
	} {
		t.Run(c.line, func(t *testing.T) {
			got := completeLine(t, strings.Split(c.line, " ")...)
			for _, want := range strings.Fields(c.want) {
				if !slices.Contains(got, want) {
					t.Errorf("%q is missing in %q", want, got)
				}
			}
			if slices.Contains(got, c.not) {
				t.Errorf("%q is in %q", c.not, got)
			}
		})
	}
}

// TestCompletionDescriptions checks that the descriptions of flags contain no marks for values.
func TestCompletionDescriptions(t *testing.T) {
	var out bytes.Buffer
	run([]string{"__complete", "record", "--"}, &out, io.Discard)
	if text := out.String(); !strings.Contains(text, "--event\trecord these events") || strings.Contains(text, "`") {
		t.Error(text)
	}
}

// bash completes a flag, an event and a file name with the generated script.
func TestCompletionInBash(t *testing.T) {
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		t.Skip("bash-completion is missing (Debian's bash-completion)")
	}
	const program = "profiler" // the script completes the name by which gperf is called
	dir := t.TempDir()
	if err := os.Symlink(binary(t, "./cmd/gperf"), filepath.Join(dir, program)); err != nil {
		t.Fatal(err)
	}
	const ask = `. "$0"; . <("$1" completion bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
complete -p "$1" >/dev/null || exit
function=$(complete -p "$1" | sed 's/.* -F \([^ ]*\).*/\1/')
compopt() { :; }
"$function"; printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range []struct{ line, want string }{
		{"record --call-gr", "--call-graph"},
		{"record -e page-fau", "page-faults"},
		{"report --sort comm_no", "comm_nodigit"},
		{"report -i mi", ""}, // the shell completes file names
	} {
		t.Run(c.line, func(t *testing.T) {
			words := append([]string{program}, strings.Split(c.line, " ")...)
			cmd := exec.Command("bash", append([]string{"-c", ask, library}, words...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, c.want) ||
				c.want == "" && got != "" {
				t.Errorf("%v, %q, want %q", err, got, c.want)
			}
		})
	}
}

// The scripts for other shells are correct by syntax.
func TestCompletionInOtherShells(t *testing.T) {
	for _, shell := range []string{"zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			script, _ := gperf(t, "completion", shell)
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("%s is missing (Debian's %[1]s)", shell)
			}
			path := filepath.Join(t.TempDir(), "gperf")
			writeFile(t, path, script)
			if out, err := exec.Command(shell, "-n", path).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
