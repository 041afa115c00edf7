package main

import (
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var growths = map[string]*programs.Program{
	"with DWARF": programs.Go("testdata/growth.go"),
	"stripped":   programs.Go("testdata/growth.go", "-ldflags=-s -w"),
	"PIE":        programs.Go("testdata/growth.go", "-ldflags=-s -w", "-buildmode=pie"),
}

// Without DWARF, too, a function without a frame has its caller, and functions of Go's runtime that grow a
// goroutine's stack, on the runtime's own stack, have the goroutine's functions as callers.
func TestScenarioStacksOfGo(t *testing.T) {
	needRecording(t, "no BPF", "-g")
	for name, program := range growths {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			mustRecord(t, "", "-F", "1999", "-g", "-o", file, "--", program.Path(t), "4000")
			folded, _ := gperf(t, "report", "--format", "folded", "-i", file)
			count := func(in, as string) (n, right int) {
				for line := range strings.Lines(folded) {
					if strings.Contains(line, in) {
						n++
						if strings.Contains(line, as) {
							right++
						}
					}
				}
				return n, right
			}
			if n, right := count(";main.leaf", ";main.outer;main.middle;main.leaf"); n == 0 || right != n {
				t.Errorf("main.leaf: %d of %d stacks have its callers", right, n)
			}
			if n, right := count(";runtime.copystack", "main.grow;"); n == 0 || right < n*9/10 {
				t.Errorf("runtime.copystack: %d of %d stacks have the goroutine's functions", right, n)
			}
		})
	}
}
