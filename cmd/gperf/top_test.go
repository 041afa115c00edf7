package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// topBlock is the first line of a block, and the first row of its table.
var topBlock = regexp.MustCompile(`(?m)^# [0-9:]+, ([^\s,]+)(?:, lost ([0-9]+) records)?\n# \S+: (\S+) events/s\n` +
	`# events/s .*\n *([0-9.]+)  100.00%  .*$`)

// topEvents sums the events of the blocks: the rates by the lengths, and the lost samples.
func topEvents(t *testing.T, text string) (sum float64) {
	t.Helper()
	for _, m := range topBlock.FindAllStringSubmatch(text, -1) {
		length, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		perSecond, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += perSecond * length.Seconds()
		if m[2] != "" { // a slow machine loses some
			lost, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += lost
		}
	}
	return sum
}

// A recording in a file, and from a pipe, is shown interval by interval with its own time.
func TestTopFile(t *testing.T) {
	text := mustGperf(t, "top", "--stdio", "-d", "0.1", "-i", "../../testdata/threads.data", "-s", "comm", "--kallsyms",
		"../../testdata/kallsyms")
	if n := strings.Count(text, "# cpu-clock:u: "); n != 1 || !strings.Contains(text, "  worker12\n") {
		t.Errorf("%d blocks:\n%s", n, text)
	}
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	var err error
	if os.Stdin, err = os.Open("../../testdata/drops.pipe.data"); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	code := run([]string{"top", "--stdio", "-i", "-"}, &out, &stderr)
	piped := out.String()
	if code != 0 || !strings.Contains(piped, "NO_SOCKET") || !strings.Contains(piped, "location") {
		t.Errorf("a pipe's block has not the tracepoint's own keys: exit code %d\n%s%s", code, piped, &stderr)
	}
}

// --filter selects samples of a file, wherever it stands, and of a recording if no event precedes it.
func TestTopFilter(t *testing.T) {
	from := []string{"-i", "../../testdata/packets.z.data", "--kallsyms", "../../testdata/kallsyms"}
	show := append([]string{"top", "--stdio", "-E", "0", "-d", "1000", "-s", "dport"}, from...)
	for _, filter := range [][]string{{"--filter", "dport == 53"}, {"-e", "skb:kfree_skb", "--filter", "dport == 53"},
		{"--filter", "dport > 52", "--filter", "dport < 54 || dport == 0"}} {
		text := mustGperf(t, append(slices.Clone(show), filter...)...)
		want := len(jsonSamples(t, append([]string{"--filter", "dport == 53"}, from...)...))
		if n := len(regexp.MustCompile(`(?m) 53$`).FindAllString(text, -1)); n != 1 || strings.Count(text, "%") != 1 {
			t.Errorf("%s: not the one row of %d samples:\n%s", filter, want, text)
		}
	}
	r := runGperf(t, append(slices.Clone(show), "--filter", "dport == 54")...)
	if want := "gperf: no sample matches --filter dport == 54"; r.stdout != "" || !strings.Contains(r.stderr, want) {
		t.Errorf("a filter that selects nothing: %q, %q, want %q", r.stdout, r.stderr, want)
	}
	needEvents(t)
	shell := filepath.Join(t.TempDir(), "spinning")
	copyFile(t, "/bin/bash", shell)
	spinning := exec.Command(shell, "-c", "while :; do :; done")
	if err := spinning.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { spinning.Process.Kill(); spinning.Wait() }()
	cmd, out, stderr := startTop(t, "--filter", "comm == spinning", "-e", "cpu-clock", "-s", "comm")
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if !strings.Contains(out.String(), "100.00%  spinning\n") || stderr.Len() > 0 {
		t.Errorf("not the one command:\n%s%s", out, stderr)
	}
}

// TestTopGetsNoControls: control characters in names of events, commands, files and functions reach neither the screen
// nor the blocks of text on a terminal.
func TestTopGetsNoControls(t *testing.T) {
	b, err := os.ReadFile("../../testdata/drops.data")
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("skb:kfree_skb"), []byte("skb:\x1b]0;x\a\r\b\x9b"))
	b = bytes.ReplaceAll(b, []byte("drops\x00"), []byte("\x1b[2Js\x00"))
	event := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(event, b, 0o600); err != nil {
		t.Fatal(err)
	}
	const pid, names = 4_000_124, "/tmp/perf-4000124.map"
	if err := os.WriteFile(names, []byte("10000000 1000 f\x1b[3J\x9b31m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(names)
	r := &recorder{attrs: 1}
	r.comm(pid, "c\x1b[2J")
	r.mmap(pid, 0x10000000, 0x1000, "//anon")
	r.mmap(pid, 0x20000000, 0x1000, "/nowhere/d\x1b]0;x\a\r\b")
	r.sampleAt(miscUser, pid, 0x10000000, contextUser, 0x10000000)
	r.sampleAt(miscUser, pid, 0x20000000, contextUser, 0x20000000)
	t.Setenv("NO_COLOR", "1")
	for file, want := range map[string][]string{
		event:     {"^[[2Js", "skb:^[]0;x^G^M^HM-^["},
		r.save(t): {"c^[[2J", "d^[]0;x^G^M^H", "f^[[3J"},
	} {
		t.Run(want[0], func(t *testing.T) {
			args := []string{"top", "-i", file, "-s", "comm,dso,sym", "--kallsyms", "../../testdata/kallsyms"}
			text, code := onTerminal(t, 200, 20, append(args, "--stdio")...)
			if code != exitOK || !containsAll(text, want...) {
				t.Errorf("top --stdio, exit code %d, shows not all of %q:\n%q", code, want, text)
			}
			noControls(t, "top --stdio", text)

			screen := inTmux(t, 200, 20, strings.Join(args, " "))
			text = screen.wait(`the recording has ended(?s:.*)(50|100)\.00%`)
			for _, name := range want {
				name = strings.NewReplacer("M-^[", "\ufffd", "^[", "?", "^G", "?", "^M", "?", "^H", "?").Replace(name)
				if !strings.Contains(text, name) {
					t.Errorf("the screen of top does not show %q:\n%s", name, text)
				}
			}
			screen.keys("q")
			screen.wait("exit code 0")
		})
	}
}

func TestTopWrongUse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-d 0", "-d 0: use a number of seconds"},
		{"-d NaN", "-d NaN: use a number"},
		{"-K -U", "nothing to show"},
		{"-e cpu-clock --filter comm==x", "before -e, it selects the samples to show"},
		{"-i ../../testdata/packets.z.data --filter dportt==5", "did you mean dport, sport?"},
		{"-s nosuch -i ../../testdata/drops.data", "nosuch"},
		{"-i a -i b", "-i is given 2 times"},
		{"more", "unexpected argument"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"top", "--stdio"}, strings.Fields(c.args)...), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, &stderr)
		}
	}
}

// top counts each drop, prints the last block at Ctrl-C, and ends at once.
func TestScenarioTop(t *testing.T) {
	needTracepoints(t)
	const sent = 20_000
	// The sender waits for its input, so that its own drops are selected before.
	sender := exec.Command("sh", "-c", `read go; exec "$@"`, "sh", binary(t, dropsProgram), "-unix", "-n",
		strconv.Itoa(sent), "-rate", "20000")
	send, err := sender.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Start(); err != nil {
		t.Fatal(err)
	}
	defer sender.Process.Kill()
	cmd, out, stderr := startTop(t, "-e", "skb:kfree_skb", "--filter",
		fmt.Sprintf("common_pid == %d && protocol == 0", sender.Process.Pid),
		"-s", "location") // Linux 5.10 knows no reasons
	send.Write([]byte("go\n"))
	if err := sender.Wait(); err != nil {
		t.Fatalf("%v: %v", sender, err)
	}
	cmd.Process.Signal(os.Interrupt)
	if !endsWithin(cmd, patience(2*time.Second)) {
		t.Fatal("gperf goes on after the interrupt")
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if got := topEvents(t, out.String()); math.Abs(got-sent) > sent/100 {
		t.Errorf("%.0f drops, want %d\n%s%s", got, sent, out, stderr)
	}
}

// startTop starts gperf top, and waits for a block. The command is killed when the test ends.
func startTop(t *testing.T, args ...string) (cmd *exec.Cmd, out, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(binary(t, "./cmd/gperf"), append([]string{"top", "--stdio", "-d", "0.5"}, args...)...)
	out, stderr = new(bytes.Buffer), new(bytes.Buffer)
	first := make(chan bool, 1)
	cmd.Stdout, cmd.Stderr = &notifyingWriter{out, first}, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	select {
	case <-first:
	case <-time.After(patience(20 * time.Second)):
		t.Fatalf("no block\n%s", stderr)
	}
	return cmd, out, stderr
}

// notifyingWriter sends to written at the first Write.
type notifyingWriter struct {
	to      *bytes.Buffer
	written chan bool
}

func (w *notifyingWriter) Write(p []byte) (int, error) {
	select {
	case w.written <- true:
	default:
	}
	return w.to.Write(p)
}
