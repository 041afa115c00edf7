package main

import (
	bin "encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// smallWrites is the number of calls of write that smallProgram makes.
const smallWrites = 50

// smallBase is the address of smallELF's programs.
const smallBase = 0x8048000

// smallProgram makes an ELF file that calls write by int $0x80: a 32-bit program of i386, or a 64-bit one of x86-64.
func smallProgram(t *testing.T, is64 bool) string {
	t.Helper()
	return smallELF(t, is64, []byte{
		0xbe, smallWrites, 0, 0, 0, // mov $50, %esi
		0xb8, 4, 0, 0, 0, // mov $4, %eax: write
		0xbb, 0xff, 0xff, 0xff, 0xff, // mov $-1, %ebx
		0x31, 0xc9, 0x31, 0xd2, // xor %ecx, %ecx; xor %edx, %edx
		0xcd, 0x80, // int $0x80
		0xff, 0xce, // dec %esi
		0x75, 0xec, // jnz to the mov of write
		0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80, // exit(0)
	})
}

// smallELF makes an ELF file of code.
func smallELF(t *testing.T, is64 bool, code []byte) string {
	t.Helper()
	const base = smallBase
	le := bin.LittleEndian
	head := []byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 1, 0, 0, 0}
	if is64 {
		head[4], head[18] = 2, 62
		for _, v := range []uint64{base + 64 + 56, 64, 0} { // entry, program and section headers
			head = le.AppendUint64(head, v)
		}
		head = le.AppendUint32(head, 0)
		for _, v := range []uint16{64, 56, 1, 64, 0, 0} {
			head = le.AppendUint16(head, v)
		}
		head = le.AppendUint64(head, 1|5<<32) // PT_LOAD, readable and executable
		for _, v := range []uint64{0, base, base, 64 + 56 + uint64(len(code)), 64 + 56 + uint64(len(code)), 0x1000} {
			head = le.AppendUint64(head, v)
		}
	} else {
		for _, v := range []uint32{base + 52 + 32, 52, 0, 0} {
			head = le.AppendUint32(head, v)
		}
		for _, v := range []uint16{52, 32, 1, 40, 0, 0} {
			head = le.AppendUint16(head, v)
		}
		size := 52 + 32 + uint32(len(code))
		for _, v := range []uint32{1, 0, base, base, size, size, 5, 0x1000} {
			head = le.AppendUint32(head, v)
		}
	}
	path := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(path, append(head, code...), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// System calls by the table of 32-bit programs are named: of 32-bit programs in all events, of 64-bit programs
// in spans, because only these say which table it was.
func TestScenarioSyscalls32(t *testing.T) {
	needEmitted(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are x86's")
	}
	for _, c := range []struct {
		name, event string
		is64        bool
	}{
		{"span of i386", "span:syscalls", false}, {"tracepoint of i386", "raw_syscalls:sys_enter", false},
		{"span of x86-64", "span:syscalls", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := smallProgram(t, c.is64)
			if err := exec.Command(program).Run(); err != nil {
				t.Skipf("the kernel does not run 32-bit programs: %v", err)
			}
			path := filepath.Join(t.TempDir(), "perf.data")
			recordSpans(t, "-o", path, "-e", c.event, "--", program)
			text := mustGperf(t, "report", "--stdio", "-i", path, "--sort", "syscall", "-n")
			if !regexp.MustCompile(`(?m)^ +[0-9.]+% +50  write *$`).MatchString(text) ||
				regexp.MustCompile(`(?m) stat *$`).MatchString(text) {
				t.Errorf("not %d calls of write, or one of stat:\n%s", smallWrites, text)
			}
		})
	}
}
