package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sourceFrame is a line of script's text with its place in the source.
var sourceFrame = regexp.MustCompile(
	`(?m)^\t +([0-9a-f]+) (.+?)\+0x[0-9a-f]+(?: \((.*)\))?\n  (\S+:\d+)( \(inlined\))?$`)

// symbolizedAt keeps it.
var symbolizedAt = map[uint64][]string{}

// symbolized is the answer of llvm-symbolizer for an address: functions with file and line, innermost first.
func symbolized(t *testing.T, path string, vaddr uint64) (calls []string) {
	t.Helper()
	if calls := symbolizedAt[vaddr]; calls != nil {
		return calls
	}
	defer func() { symbolizedAt[vaddr] = calls }()
	out, err := exec.Command("llvm-symbolizer", "--obj="+path, "--functions=linkage", "--no-demangle",
		fmt.Sprintf("%#x", vaddr)).Output()
	if err != nil {
		t.Fatalf("llvm-symbolizer: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		place := lines[i+1][:strings.LastIndexByte(lines[i+1], ':')] // without the column
		calls = append(calls, lines[i]+" "+place)
	}
	return calls
}

// TestRecordSrcline: each frame of a program has its inlined calls and lines, and a caller's are where it
// called.
func TestRecordSrcline(t *testing.T) {
	needEvents(t)
	if _, err := exec.LookPath("llvm-symbolizer"); err != nil {
		t.Skip("llvm-symbolizer is not installed (Debian's llvm): nothing to compare with")
	}
	program, dir := inlinedProgram.Path(t), t.TempDir()
	mustRecord(t, dir, "-g", "-e", "cpu-clock:u", "-F", "500", "--", program, "5000000")
	file := filepath.Join(dir, "perf.data")
	for _, flags := range []string{"", "--no-inline"} {
		text, _ := gperf(t, append([]string{"script", "--no-demangle", "--full-source-path", "-F",
			"ip,sym,symoff,dso,dsoff,srcline", "-i", file}, strings.Fields(flags)...)...)
		frames, inlined := 0, 0
		for block := range strings.SplitSeq(text, "\n\n") {
			var got []string // of one frame, the innermost call first
			caller := false
			for _, m := range sourceFrame.FindAllStringSubmatch(block, -1) {
				got = append(got, m[2]+" "+m[4])
				if m[5] != "" {
					inlined++
					continue
				}
				path, off, _ := strings.Cut(m[3], "+0x")
				if path != program {
					break // the C library, whose debug information may be there or not
				}
				vaddr, _ := strconv.ParseUint(off, 16, 64)
				if caller {
					vaddr-- // where it called
				}
				want := symbolized(t, program, vaddr)
				if flags != "" { // the symbol's name with the innermost line
					_, place, _ := strings.Cut(want[0], " ")
					want = []string{m[2] + " " + place}
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s %#x: %q, llvm-symbolizer says %q", flags, vaddr, got, want)
				}
				got, caller = nil, true
				frames++
			}
		}
		if frames < 200 {
			t.Errorf("only %d frames have lines", frames)
		}
		if (inlined > 100) != (flags == "") {
			t.Errorf("%q: %d inlined calls:\n%.2000s", flags, inlined, text)
		}
	}
}
