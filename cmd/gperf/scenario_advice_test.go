package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
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

// jitPHP and jitLua take their time in functions that PHP and LuaJIT compile.
const (
	jitPHP = `<?php
function leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += $i % 7; } return $s; }
function outer($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += leaf(2000); } return $s; }
for ($end = microtime(true) + 1; microtime(true) < $end;) { outer(50); }
`
	jitLua = `
local function leaf(n) local s = 0; for i = 1, n do s = s + i * 7 end; return s end
local function outer(n) local s = 0; for i = 1, n do s = s + leaf(2000) end; return s end
local stop = os.clock() + 1
while os.clock() < stop do outer(50) end
`
)

// The summary's advice about incomplete stacks is given, and makes stacks complete.
func TestScenarioAdvice(t *testing.T) {
	needEvents(t)
	// jit returns a command line that runs a script.
	jit := func(program, script string, flags ...string) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			return append(append([]string{path}, flags...), file)
		}
	}
	opcache := slices.Clip([]string{"-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=64M", "-d"})
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
		{"PHP's JIT", "php -d opcache.jit=off", jit("php", jitPHP, append(opcache, "opcache.jit=tracing")...),
			jit("php", jitPHP, append(opcache, "opcache.jit=off")...)},
		{"LuaJIT", "luajit -joff", jit("luajit", jitLua), jit("luajit", jitLua, "-joff")},
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
