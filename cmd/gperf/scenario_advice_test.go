package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var (
	hidesC   = programs.C(ownPrograms+"hides.c", "-O1", "-g")
	hidesCFI = programs.C(ownPrograms+"hides.c", "-O1", "-g", "-DCFI")
	hidesFP  = programs.C(ownPrograms+"hides.c", "-O1", "-g", "-DFP")
)

// completePart is the part of the stacks that is complete, in per cent.
var completePart = regexp.MustCompile(`User stacks: \d+ complete \(([\d.]+)%\)`)

// jitPHP takes its time in functions that PHP compiles.
const jitPHP = `<?php
function leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += $i % 7; } return $s; }
function outer($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += leaf(2000); } return $s; }
for ($end = microtime(true) + 1; microtime(true) < $end;) { outer(50); }
`

// The summary's advice about incomplete stacks is given, and makes stacks complete.
func TestScenarioAdvice(t *testing.T) {
	needEvents(t)
	script := filepath.Join(t.TempDir(), "jit.php")
	if err := os.WriteFile(script, []byte(jitPHP), 0o644); err != nil {
		t.Fatal(err)
	}
	php := func(jit string) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			path, err := exec.LookPath("php")
			if err != nil {
				t.Skip("no php (Debian's php-cli)")
			}
			return []string{path, "-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=64M", "-d", jit, script}
		}
	}
	program := func(p *programs.Program) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			if runtime.GOARCH != "amd64" {
				t.Skip("the assembly is that of x86-64")
			}
			return []string{p.Path(t)}
		}
	}
	for _, a := range []struct {
		name, advice  string
		without, with func(t *testing.T) []string // command lines
	}{
		{"CFI", "needs .cfi directives", program(hidesC), program(hidesCFI)},
		{"frame pointers", "-fno-omit-frame-pointer", program(hidesC), program(hidesFP)},
		{"PHP's JIT", "php -d opcache.jit=off", php("opcache.jit=tracing"), php("opcache.jit=off")},
	} {
		t.Run(a.name, func(t *testing.T) {
			record := func(command []string) (stderr string, complete float64) {
				args := []string{"-e", "cpu-clock:u", "-F", "499", "-g", "--"}
				r := mustRecord(t, t.TempDir(), append(args, command...)...)
				m := completePart.FindStringSubmatch(r.stderr)
				if m == nil {
					t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
				}
				complete, _ = strconv.ParseFloat(m[1], 64)
				return r.stderr, complete
			}
			const most = 95 // per cent
			without, complete := record(a.without(t))
			if complete >= most {
				t.Skipf("stacks are complete without the advice:\n%s", without)
			}
			if !strings.Contains(without, a.advice) {
				t.Errorf("%s is not advised:\n%s", a.advice, without)
			}
			if with, complete := record(a.with(t)); complete < most {
				t.Errorf("with %s:\n%s", a.advice, with)
			}
		})
	}
}
