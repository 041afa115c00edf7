package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// perfCommands are the commands of perf 7.3.4 (perf --list-cmds).
const perfCommands = `archive buildid-cache buildid-list check config c2c diff evlist help iostat kallsyms list record
	report bench stat timechart top annotate version script sched probe kmem lock kvm test trace inject mem data ftrace
	daemon kwork`

// TestOtherCommands: of each of perf's commands that gperf does not have, gperf names the way.
func TestOtherCommands(t *testing.T) {
	names := strings.Fields(perfCommands)
	if perf := strings.Fields(os.Getenv("PERF")); len(perf) > 0 {
		out, err := exec.Command(perf[0], append(perf[1:], "--list-cmds")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.Fields(string(out))...)
	}
	own := regexp.MustCompile("`gperf ([a-z-]+)")
	tree := newRoot(io.Discard, io.Discard)
	for _, name := range names {
		if name == "help" || name == "version" || find(tree, name) != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			code := run([]string{name, "-i", "perf.data"}, &out, &stderr)
			way, ok := strings.CutPrefix(stderr.String(), "gperf: there is no command "+name+": ")
			if code != exitUsage || out.Len() > 0 || !ok || len(way) < 20 {
				t.Errorf("exit code %d, %q, %q", code, &out, &stderr)
			}
			for _, m := range own.FindAllStringSubmatch(way, -1) {
				if find(tree, m[1]) == nil {
					t.Errorf("%q names gperf %s, which there is not", way, m[1])
				}
			}
		})
	}
}

func TestUnknownCommandHasSuggestion(t *testing.T) {
	for name, want := range map[string]string{
		"flamegraph": "`gperf report --format flamegraph -o flame.html`",
		"reprot":     `gperf: "reprot" is not a command of gperf: did you mean report?`,
		"rec":        "did you mean record?",
		"buildid":    "did you mean buildid-list?",
		"re":         "did you mean record or report?",
		"--sort":     "flags follow the command",
		"zzzzzz":     "is not a command of gperf\n`gperf --help` lists them.",
	} {
		t.Run(name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			if code := run([]string{name}, &out, &stderr); code != exitUsage ||
				!strings.Contains(stderr.String(), want) {
				t.Errorf("exit code %d, %q, want %q", code, &stderr, want)
			}
		})
	}
}

func TestUnknownFieldHasSuggestion(t *testing.T) {
	var out, stderr bytes.Buffer
	code := run(perfArgs(t, "script -i two.data -F comm,evnt"), &out, &stderr)
	if code != exitUsage || !strings.Contains(stderr.String(), `unknown field "evnt": did you mean event`) {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
}

// TestRecordingAsArgument: commands that read recordings take one as an argument.
func TestRecordingAsArgument(t *testing.T) {
	file, err := filepath.Abs(filepath.Join(root, "testdata", "drops.data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, command := range []string{"script", "report", "evlist", "buildid-list", "annotate", "archive -o -"} {
		t.Run(command, func(t *testing.T) {
			var want, got bytes.Buffer
			wantCode := run(append(strings.Fields(command), "-i", file), &want, &want)
			code := run(append(strings.Fields(command), file), &got, &got)
			if code != wantCode || want.Len() == 0 || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("exit code %d, want %d; %q, want %q", code, wantCode, got.Bytes(), want.Bytes())
			}
		})
	}
}

// TestScenarioSuggestedEvents: a word that is no event may be a tracepoint or a function.
func TestScenarioSuggestedEvents(t *testing.T) {
	needTracepoints(t)
	for event, want := range map[string]string{
		"kfree_skb":    "did you mean skb:kfree_skb?",
		"sys_enter":    "did you mean raw_syscalls:sys_enter?",
		"kfree_sbk":    "skb:kfree_skb",
		"sched_swicht": "sched:sched_switch",
	} {
		t.Run(event, func(t *testing.T) {
			r := recordIn(t, t.TempDir(), "-e", event, "true")
			if r.code != exitUsage || !strings.Contains(r.stderr, want) {
				t.Errorf("exit code %d, %q, want %q", r.code, r.stderr, want)
			}
		})
	}
	t.Run("malloc", func(t *testing.T) {
		needProbes(t, "uprobe")
		r := recordIn(t, t.TempDir(), "-e", "malloc", "true")
		if r.code != exitUsage || !strings.Contains(r.stderr, "did you mean uprobe:libc:malloc?") {
			t.Errorf("exit code %d, %q", r.code, r.stderr)
		}
	})
}
