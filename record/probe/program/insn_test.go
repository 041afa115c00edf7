package program

import (
	"bufio"
	"encoding/hex"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestX86LengthAgainstObjdump compares the lengths of instructions with objdump's, in C code
// and in Go code: this test's own.
func TestX86LengthAgainstObjdump(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed (package binutils)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, path := range []string{self, "/lib/x86_64-linux-gnu/libc.so.6"} {
		f, err := Open(path)
		if err != nil || f.Machine.String() != "EM_X86_64" {
			continue
		}
		text := f.Section(".text")
		size := min(text.Size, 1<<20)
		code, err := f.Data(text)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		compared++
		cmd := exec.Command(objdump, "-d", "--no-show-raw-insn", "-w", "-j", ".text",
			"--stop-address="+strconv.FormatUint(text.Addr+size, 10), path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		last, wrong := uint64(0), 0
		bad := true // bytes between instructions are no instruction
		for lines := bufio.NewScanner(out); lines.Scan(); {
			addr, insn, ok := strings.Cut(lines.Text(), ":\t")
			at, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64)
			if !ok || err != nil {
				bad = true
				continue
			}
			if !bad && at+15 < text.Addr+size { // one that is cut short is none
				b := code[last-text.Addr:]
				if n := x86Length(b); uint64(n) != at-last {
					if wrong++; wrong <= 10 {
						t.Errorf("%s %#x: %s has %d bytes, not %d", path, last, hex.EncodeToString(b[:min(16, len(b))]),
							at-last, n)
					}
				}
			}
			last, bad = at, strings.Contains(insn, "(bad)") || strings.HasPrefix(insn, ".byte")
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if wrong > 10 {
			t.Errorf("%s: %d wrong in all", path, wrong)
		}
	}
	if compared == 0 {
		t.Skip("there is no code for x86-64 here")
	}
}
