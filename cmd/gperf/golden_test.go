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
	"script -i drops.data --compat 6.1 -F comm,pid,tid,cpu,time,event,trace,ip,sym,symoff,dso --max-stack 24",
	"script -i two.data",
	"script -i two.data --format folded",
	"script -i two.data -F trace:comm,time,event,trace --ns",
	"script -i two.data -F sw:tid,period,event,ip,sym -G --time 20%-60%",
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.,%-]+`)

func TestGolden(t *testing.T) {
	t.Setenv("TZ", "UTC")
	dir := filepath.Join("..", "..", "testdata")
	for _, line := range goldens {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for i, a := range args {
				if strings.HasSuffix(a, ".data") {
					args[i] = filepath.Join(dir, a)
				}
			}
			got, stderr := gperf(t, append(args, "--kallsyms", filepath.Join(dir, "kallsyms"))...)
			if stderr != "" {
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
