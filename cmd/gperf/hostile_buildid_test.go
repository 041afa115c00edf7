package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var deepProgram = programs.C(ownPrograms+"deep.c", "-O1", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
	"-Wl,--build-id")

// TestHostileSameBuildID records a program beside a copy with the same build ID and false unwind information, which
// starts before or after it. The program's stacks and lines are right, in BPF's walks and in walks of copied stacks.
func TestHostileSameBuildID(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the false unwind information is for x86-64")
	}
	for _, order := range [][2]string{{"copy", "honest"}, {"honest", "copy"}} {
		for _, mode := range []string{"-g", "--call-graph=dwarf"} {
			t.Run(order[0]+" first "+mode, func(t *testing.T) {
				t.Setenv("HOME", t.TempDir())
				dir := t.TempDir()
				copyFile(t, deepProgram.Path(t), filepath.Join(dir, "honest"))
				falseUnwindTable(t, deepProgram.Path(t), filepath.Join(dir, "copy"))
				r := mustRecord(t, dir, "-F", "499", mode, "--", "sh", "-c",
					`"$0" 200000 & sleep 0.3; "$1" 200000; wait`, filepath.Join(dir, order[0]),
					filepath.Join(dir, order[1]))
				script := func(comm string) (samples []string) {
					out := mustGperf(t, "script", "--comm", comm, "-F", "ip,sym,srcline", "-i",
						filepath.Join(dir, "perf.data"))
					return strings.Split(strings.TrimSpace(out), "\n\n")
				}
				all, right := 0, 0
				for _, s := range script("honest") {
					if !strings.Contains(s, " work") { // the start and the end of the process
						continue
					}
					if all++; containsAll(s, " main\n", " _start\n", "deep.c:20", "deep.c:27") {
						right++
					} else if all-right == 1 {
						t.Logf("the first incomplete stack:\n%s", s)
					}
				}
				if all < 50 || right < all*99/100 {
					t.Errorf("%d of %d stacks are complete\n%s", right, all, r.stderr)
				}
				if n := strings.Count(strings.Join(script("copy"), "\n"), " main\n"); n > right/10 {
					t.Errorf("%d stacks of the copy are complete: its unwind information is not false", n)
				}
				if strings.Contains(r.stderr, "Kept a copy") {
					t.Errorf("gperf keeps a file that has the build ID of another one:\n%s", r.stderr)
				}
				if mode == "-g" && !strings.Contains(r.stderr, "files have one build ID") {
					t.Errorf("gperf does not say that two files have one build ID:\n%s", r.stderr)
				}
			})
		}
	}
}

// falseUnwindTable copies a program; in the copy, most functions have too large a frame.
func falseUnwindTable(t *testing.T, from, to string) {
	t.Helper()
	f, err := elf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	const defCFAOffset = 0x0e // DW_CFA_def_cfa_offset
	s := f.Section(".eh_frame")
	table := b[s.Offset:][:s.Size]
	for i := range table[1:] {
		if size := table[i+1]; table[i] == defCFAOffset && (size == 16 || size == 24 || size == 32) {
			table[i+1] += 8
		}
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func containsAll(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}
