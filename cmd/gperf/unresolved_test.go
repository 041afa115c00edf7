package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnresolved: gperf reports unresolved files once, with the remedy, but not memory and
// programs without samples.
func TestUnresolved(t *testing.T) {
	const pid = 4_000_125
	r := &recorder{attrs: 1}
	r.mmap(pid, 0x10000000, 0x1000, "/nowhere/program")
	r.mmap(pid, 0x20000000, 0x1000, "//anon")
	r.mmap(pid, 0x30000000, 0x1000, "/nowhere/unsampled")
	for ip := uint64(0); ip < 4; ip++ {
		r.chain(pid, 1, 0x10000000+ip)
		r.chain(pid, 1, 0x20000000+ip)
	}
	name := r.save(t)
	for _, command := range []string{"script", "report", "script --format folded", "report --format pprof",
		"report --format flamegraph"} {
		_, stderr := gperf(t, append(strings.Fields(command), "-i", name)...)
		if n := strings.Count(stderr, "/nowhere/program: no such file"); n != 1 ||
			!strings.Contains(stderr, "addresses in 1 file ") ||
			!strings.Contains(stderr, "gperf archive") || strings.Contains(stderr, "anon") {
			t.Errorf("gperf %s says\n%s", command, stderr)
		}
	}
}

// TestUnresolvedThatMatter: files that less than 1 % of the samples hit are counted in
// one line, however deep their stacks are, and those that more of them hit are listed.
func TestUnresolvedThatMatter(t *testing.T) {
	const pid, samples = 4_000_127, 1000
	const few = " in less than 1 % of the samples each\n"
	for _, test := range []struct {
		name      string
		file, lib int // samples that hit them
		listed    []string
		rest      string // the line, "" for none
	}{
		{"both", 990, 10, []string{"/nowhere/program", "/nowhere/lib"}, ""},
		{"one of them", 991, 9, []string{"/nowhere/program"}, "gperf: addresses in 1 more file have no names," + few},
		{"none", 9, 9, nil, "gperf: addresses in 2 files have no names," + few},
	} {
		r := &recorder{attrs: 1}
		r.mmap(pid, 0x10000000, 0x1000, "/nowhere/program")
		r.mmap(pid, 0x20000000, 0x1000, "/nowhere/lib")
		r.mmap(pid, 0x30000000, 0x1000, "//anon")
		for i := range uint64(samples) {
			switch n := int(i); {
			case n < test.file:
				r.sampleAt(miscUser, pid, 0x10000000, contextUser, 0x10000000, 0x10000010+i%4)
			case n < test.file+test.lib:
				r.sampleAt(miscUser, pid, 0x20000000, contextUser, 0x20000000, 0x20000010, 0x30000000, 0x20000020+i,
					0x20000030)
			default:
				r.sampleAt(miscUser, pid, 0x30000000)
			}
		}
		file := r.save(t)
		for _, command := range []string{"script", "script -G", "report", "report --no-children -g none",
			"script --format folded"} {
			t.Run(test.name+", "+command, func(t *testing.T) {
				_, stderr := gperf(t, append(strings.Fields(command), "-i", file)...)
				for _, path := range []string{"/nowhere/program", "/nowhere/lib"} {
					if listed := strings.Contains(stderr,
						path+": no such file\n"); listed != slices.Contains(test.listed, path) {
						t.Errorf("%s is listed: %v\n%s", path, listed, stderr)
					}
				}
				if !strings.Contains(stderr, test.rest) || test.rest == "" && strings.Contains(stderr, few) {
					t.Errorf("got\n%swant %q", stderr, test.rest)
				}
			})
		}
	}
}

// TestLineless: who asks for source lines learns of which files there are none.
func TestLineless(t *testing.T) {
	const pid = 4_000_126
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // the user's caches have the lines of the whole program
	t.Setenv("HOME", t.TempDir())
	r := &recorder{attrs: 1}
	program := binary(t, dropsProgram)
	stripped := filepath.Join(t.TempDir(), "stripped")
	tool, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("objcopy is not installed (Debian's binutils)")
	}
	if out, err := exec.Command(tool, "--strip-debug", "--remove-section=.gopclntab", program,
		stripped).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.mmap(pid, 0x400000, 0x100000, stripped)
	for ip := uint64(0); ip < 4; ip++ {
		r.chain(pid, 1, 0x402000+16*ip)
	}
	name := r.save(t)
	for _, args := range [][]string{{"script", "-F", "+srcline"}, {"report", "--sort", "srcfile"}} {
		if _, stderr := gperf(t, append(args, "-i", name)...); !strings.Contains(stderr,
			"addresses in 1 file have no source lines: install") ||
			!strings.Contains(stderr, stripped+": no debug information") {
			t.Errorf("gperf %q says\n%s", args, stderr)
		}
		if _, stderr := gperf(t, args[0], "-i", name); strings.Contains(stderr, "source lines") {
			t.Errorf("gperf %s, which nobody asked for lines, says\n%s", args[0], stderr)
		}
	}
}
