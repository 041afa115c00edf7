package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// goldens are command lines over the project's own recordings; the golden file
// of each is named after it.
var goldens = []string{
	"script -i drops.data",
	"script -i drops.data --format folded",
	"script -i drops.data --header-only -I",
	"report -i two.data --header-only",
	"evlist -i drops.data -v",
	"evlist -i two.data -F --trace-fields",
	"evlist -i two.data -g",
	"buildid-list -i drops.data",
	"buildid-list -i two.data -H",
	"script -i drops.data --compat 6.1 -F comm,pid,tid,cpu,time,event,trace,ip,sym,symoff,dso --max-stack 24",
	"script -i two.data",
	"script -i two.data --format folded",
	"script -i two.data --format folded --by-event --pid",
	"report -i drops.data -i two.data --format folded --all --tid",
	"script -i two.data -F trace:comm,time,event,trace --ns",
	"report -i drops.data --sort trace",
	"report -i drops.data",
	"report -i answers.data",
	"report -i drops.data -H --sort comm,symbol -g none --percent-limit 5",
	"report -i answers.data --sort +comm",
	"report -i answers.data --sort syscall --no-children",
	"report -i drops.data --sort location,reason --no-children -g none",
	"report -i two.data --no-children -g none --group -n",
	"report -i two.data --sort dso,symbol -g fractal,5,callee --no-children --percent-limit 5",
	"script -i two.data -F sw:tid,period,event,ip,sym -G --time 20%-60%",
	"script -i two.data -F sw:comm,misc,ip,sym,dsoff --max-stack 4",
	"script -i records.data -D",
	"script -i records.data -F +misc --show-ta --show-m --show-sw --show-n --show-l --show-b --show-c --show-te",
	"script -i two.data -G --show-task-events --show-mmap-events --show-round-events",
	"script -i drops.data -D",
	"report -i two.data --stats",
	"report -i records.data --stats",
	"report -i spans.data",
	"report -i spans.data --latency-hist --sort comm",
	"script -i spans.data --tree --min 5us",
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.,%-]+`)

func TestGolden(t *testing.T) {
	t.Setenv("TZ", "UTC")
	dir := filepath.Join("..", "..", "testdata")
	machineOf(t, map[string]string{"sys/bus/event_source/devices/cpu/type": "4",
		"trace/events/skb/kfree_skb/id": "2310"})
	for _, line := range goldens {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for i, a := range args {
				if strings.HasSuffix(a, ".data") {
					args[i] = filepath.Join(dir, a)
				}
			}
			if args[0] == "script" || args[0] == "report" {
				args = append(args, "--kallsyms", filepath.Join(dir, "kallsyms"), "--symfs", t.TempDir())
			}
			got, stderr := gperf(t, args...)
			notice := "" // records.data contains one of each
			if strings.HasPrefix(line, "script -i records.data -F") {
				notice = "gperf: skipped 1 AUXTRACE records with 8 bytes of ARM SPE: gperf does not decode them, " +
					"perf does\n"
			}
			// The programs do not exist: TestUnresolved checks this message.
			stderr = regexp.MustCompile(`(?m)^gperf: addresses in .* have no names: .*\n(?:  .*\n)+`).ReplaceAllString(
				stderr, "")
			if stderr != notice {
				t.Errorf("on stderr: %s", stderr)
			}
			// When a clone's files were written says nothing.
			got = regexp.MustCompile(`(?m)^# captured on .*\n`).ReplaceAllString(got, "")
			file := filepath.Join(dir, "golden", notInFileNames.ReplaceAllString(line, "_")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sameText(t, file, got, string(want))
		})
	}
}

// machineOf uses the files in place of this machine's sysfs and tracefs: the output
// depends on them. The paths begin with sys/ and trace/.
func machineOf(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SYSFS_PATH", filepath.Join(dir, "sys"))
	t.Setenv("TRACEFS_PATH", filepath.Join(dir, "trace"))
}
