package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// viewRows are the sums of the functions that a page shows, by name: [name, self, total].
const viewRows = `(document.documentElement.dataset.ready !== "true") ? [] : byFunction(page.tree, page.counted)
	.map(r => [page.table.functions.name[r.fn], String(r.self), String(r.total)])`

// TestViewShowsTotals: an exported page shows the totals of report.
func TestViewShowsTotals(t *testing.T) {
	ctx := newBrowser(t)
	for _, v := range viewedRecordings(t) {
		t.Run(v.name+" "+v.event, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.html")
			mustGperf(t, append([]string{"view", "--no-inline", "--export", page}, v.args...)...)
			at := "file://" + page + "#event=" + url.QueryEscape(v.event)
			if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(at)); err != nil {
				t.Fatal(err)
			}
			var rows [][3]string
			for end := time.Now().Add(patience(20 * time.Second)); len(rows) == 0 && time.Now().Before(end); {
				var err error
				if rows, err = chromedp.Run(ctx, chromedp.Evaluate[[][3]string](viewRows)); err != nil {
					t.Fatal(err)
				}
			}
			got := newTotals()
			for _, r := range rows {
				got.self[r[0]] += atoi(t, r[1])
				got.total[r[0]] += atoi(t, r[2])
				got.all += atoi(t, r[1])
			}
			v.compare(t, "view", got)
		})
	}
}

// viewing is a running gperf view.
type viewing struct {
	*testing.T
	cmd    *exec.Cmd
	url    string
	errors string // the file that has its stderr
}

func (v *viewing) stderr() string {
	b, err := os.ReadFile(v.errors)
	if err != nil {
		v.Error(err)
	}
	return string(b)
}

// startView starts gperf view, and waits for the address that it prints.
func startView(t *testing.T, args ...string) *viewing {
	t.Helper()
	v := &viewing{T: t, errors: filepath.Join(t.TempDir(), "stderr"),
		cmd: exec.Command(binary(t, "./cmd/gperf"), append([]string{"view", "--no-browser"}, args...)...)}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errors, err := os.Create(v.errors)
	if err != nil {
		t.Fatal(err)
	}
	defer errors.Close()
	v.cmd.Stderr = errors
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.cmd.Process.Kill(); v.cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, v.stderr())
	}
	v.url = strings.TrimSpace(line)
	return v
}

// get returns the status and the body of an answer.
func (v *viewing) get(path, host string) (int, []byte) {
	v.Helper()
	r, err := http.NewRequest(http.MethodGet, v.url+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		v.Fatalf("%v\n%s", err, v.stderr())
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		v.Fatal(err)
	}
	return answer.StatusCode, body
}

// waitFor waits until a condition is true.
func (v *viewing) waitFor(what string, condition func() bool) {
	v.Helper()
	for end := time.Now().Add(patience(20 * time.Second)); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			v.Fatalf("%s: not within 20 s\n%s", what, v.stderr())
		}
	}
}

// interrupt ends gperf view as Ctrl-C does, and expects that it ends at once and that its port is closed.
func (v *viewing) interrupt() {
	v.Helper()
	v.cmd.Process.Signal(os.Interrupt)
	if !endsWithin(v.cmd, patience(2*time.Second)) {
		v.Fatalf("gperf view goes on after the interrupt\n%s", v.stderr())
	}
	if code := v.cmd.ProcessState.ExitCode(); code != exitOK {
		v.Errorf("exit code %d\n%s", code, v.stderr())
	}
	if _, err := http.Get(v.url); err == nil {
		v.Error("the port is still open")
	}
}

// Two views run at once, refuse other hosts and tokens, report that a file was replaced, and end at Ctrl-C.
func TestViewServes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.data")
	copyFile(t, testRecording("drops.data"), file)
	one := startView(t, "-i", file)
	two := startView(t, "-i", testRecording("threads.data"))
	for _, v := range []*viewing{one, two} {
		if code, body := v.get("", ""); code != http.StatusOK || !bytes.Contains(body, []byte("<!DOCTYPE html>")) {
			t.Errorf("%s: status %d, %.80s", v.url, code, body)
		}
		wrong := *v
		wrong.url = v.url[:strings.LastIndexByte(strings.TrimSuffix(v.url, "/"), '/')] + "/WRONG/"
		for _, c := range []struct {
			*viewing
			path, host string
		}{{v, "", "evil.example"}, {v, "data", "evil.example"}, {&wrong, "", ""}, {&wrong, "data", ""}} {
			if code, body := c.get(c.path, c.host); code != http.StatusForbidden {
				t.Errorf("%s%s of host %q: status %d, %.80s", c.url, c.path, c.host, code, body)
			}
		}
	}
	next := filepath.Join(dir, "next")
	copyFile(t, testRecording("two.data"), next)
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
	const replaced = "a.data was replaced: this page shows the recording that was there before"
	one.waitFor("a message on stderr", func() bool { return strings.Contains(one.stderr(), replaced) })
	if _, body := one.get("changes?version=1", ""); !bytes.Contains(body, []byte(replaced)) {
		t.Errorf("the page gets no message: %s", body)
	}
	one.interrupt()
	two.interrupt()
}

// A view of a growing file, and of a recording that is still made, gets new samples.
func TestScenarioViewGrows(t *testing.T) {
	needTracepoints(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	record := []string{"record", "-q", "-e", "cpu-clock", "-F", "999", "-g"}
	recorder := exec.Command(binary(t, "./cmd/gperf"), append(record, "-o", file, "--", "sh", "-c",
		"while :; do :; done")...)
	recorder.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := recorder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { syscall.Kill(-recorder.Process.Pid, syscall.SIGKILL); recorder.Wait() }()
	for end := time.Now().Add(patience(20 * time.Second)); ; time.Sleep(100 * time.Millisecond) {
		if r := runGperf(t, "report", "--stats", "-i", file); strings.Contains(r.stdout, "SAMPLE") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the recorder writes no samples")
		}
	}
	for name, args := range map[string][]string{
		"file":     {"-i", file},
		"recorder": append([]string{"--"}, append(record, "sh", "-c", "while :; do :; done")...),
	} {
		t.Run(name, func(t *testing.T) {
			v := startView(t, args...)
			size := func() int { _, body := v.get("data", ""); return len(body) }
			first := size()
			v.waitFor(fmt.Sprintf("more than %d bytes of samples", first), func() bool { return size() > first })
			v.interrupt()
		})
	}
}
