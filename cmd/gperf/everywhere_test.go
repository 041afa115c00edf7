package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// analyses are the commands that read recordings of the repository, by name.
var analyses = map[string][]string{
	"spans.data": {"report", "report --sort sym -g none", "report --latency-hist --sort syscall",
		"report --weight duration --sort comm -g none", "report --sort time --time-quantum 100us -g none",
		"report --format flamegraph --sort syscall",
		"report --format speedscope", "report --format json", "report --format firefox", "report --format perfetto",
		"report --format svg", "report --format csv --sort syscall", "script --tree --min 5us", "script",
		"report --format parquet", "report --format parquet --rows samples",
		"top --stdio -d 0.1"},
	"drops.data": {"report --format folded --by reason,location", "report --format flamegraph --sort reason",
		"report --weight protocol -g none", "report --format json --no-idle", "top --stdio -s reason"},
	"two.data": {"report --no-idle", "script --no-idle", "report --format flamegraph --no-idle",
		"report --format speedscope", "report --format perfetto", "report --format csv --no-children",
		"diff", "diff --format svg", "diff --noise", "diff --format flamegraph", "top --stdio -d 0.1"},
}

// changing matches the time when a file was written, of which an archive keeps full seconds.
var changing = regexp.MustCompile(`"(began|startTime)":"?[^,"]*"?`)

// TestEverywhere: all analyses print the same for a file, for the same bytes in a pipe, and for the archive.
func TestEverywhere(t *testing.T) {
	for name, list := range analyses {
		file := testRecording(name)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archived := filepath.Join(t.TempDir(), name+".zip")
		gperf(t, "archive", "-i", file, "-o", archived)
		for _, line := range list {
			t.Run(name+" "+line, func(t *testing.T) {
				want := analysis(t, line, file)
				if len(want) < 20 {
					t.Errorf("%q", want)
				}
				sameText(t, "the archive", analysis(t, line, archived), want)
				withStdin(t, string(content), func() int {
					sameText(t, "the pipe", analysis(t, line, "-"), want)
					return exitOK
				})
			})
		}
	}
}

// analysis returns the output of a command for a recording, without the text that changes.
func analysis(t *testing.T, line, path string) string {
	t.Helper()
	args := append(strings.Fields(line), "--kallsyms", testRecording("kallsyms"))
	switch args[0] {
	case "diff":
		args = append(args, testRecording("drops.data"), path)
	default:
		args = append(args, "-i", path)
	}
	out, _ := gperf(t, args...)
	if args[0] == "top" { // a pipe may be live: its intervals show the time of day
		out = regexp.MustCompile(`(?m)^# (until [\d.]+|[\d:]+), `).ReplaceAllString(out, "")
	}
	return changing.ReplaceAllString(out, "")
}

// TestWrongValues: each error names the flag, the value, and the possible ones.
func TestWrongValues(t *testing.T) {
	drops := testRecording("drops.data")
	for line, want := range map[string]string{
		"report --by reasn --format folded":        `--by: unknown key "reasn": did you mean reason?`,
		"report --sort reasn --format folded":      `--sort: unknown key "reasn": did you mean reason?`,
		"report --sort nosuch --format flamegraph": `--sort: unknown key "nosuch": the keys are `,
		"report --sort reason --format json":       "--sort is for --format text, folded, pprof, flamegraph and svg",
		"report --time-quantum 1s --format json":   "--time-quantum is for --format text, folded, pprof, flamegraph and svg",
		"report --by reason --format json":         "--by is for --format folded, pprof, flamegraph and svg",
		"report --by reason":                       "gperf report --sort sorts text",
		"report --weight reasn":                    `no event has a numeric field "reasn": did you mean reason?`,
		"report --weight size":                     "the fields are skbaddr, ",
		"report --time-quantum 0 --sort time":      "use a number above 0 with ns, us, ms or s",
		"report --time-quantum 1h --sort time":     "use a number above 0 with ns, us, ms or s",
		"report --sort reasn":                      `--sort: unknown key "reasn": did you mean reason?`,
		"script --tree --min 5":                    "use a number with ns, us, ms or s, such as 10us",
		"script --min 5us":                         "--max-depth and --min are for --tree",
		"top -d 0":                                 "use a number of seconds, at least 0.1",
		"top -s reasn":                             `unknown key "reasn": did you mean reason?`,
		"top --weight size":                        "the fields are skbaddr, ",
		"record -e span:syscalls/max=1ms/ true":    "the terms of system calls are min, hist and name: span:syscalls/min=1ms/",
		"record -e span:syscalls/min=5/ true":      "5 is not a duration such as 100us, 1ms or 2s",
		"record -e span:syscalls/min=1ms true":     "between slashes: span:syscalls/min=1ms/",
		"record -e span:syscall true":              "did you mean span:syscalls?",
		"record -e span:syscalls:u true":           "--filter 'duration > 1000000'",
		"record -e span:syscalls/key=id/ true":     "the key of calls is the thread",
		"record -e span:sched:sched_switch.. true": "span:block:block_rq_issue..block:block_rq_complete/key=dev,sector/",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			if args[0] != "record" {
				args = append(args, "-i", drops)
			}
			if r := runGperf(t, args...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
				t.Errorf("exit code %d, %q; want %q", r.code, r.stderr, want)
			}
		})
	}
}
