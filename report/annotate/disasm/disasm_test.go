package disasm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func nameless(uint64) string { return "" }

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestText(t *testing.T) {
	names := func(addr uint64) string {
		return map[uint64]string{0x2000: "callee", 0x1000: "f", 0x3008: "table+0x8"}[addr]
	}
	for _, c := range []struct {
		machine elf.Machine
		syntax  Syntax
		addr    uint64
		code    string
		kind    Kind
		want    string
	}{
		{elf.EM_X86_64, ATT, 0x1000, "4889fa", Other, "mov    %rdi,%rdx"},
		{elf.EM_X86_64, Intel, 0x1000, "4889fa", Other, "mov    rdx, rdi"},
		{elf.EM_X86_64, ATT, 0x1000, "e8fb0f0000", Call, "call   2000 <callee>"},
		{elf.EM_X86_64, ATT, 0x1ffb, "e8f0000000", Call, "call   20f0"},
		{elf.EM_X86_64, Intel, 0x1002, "7efc", Jump, "jle    1000 <f>"},
		{elf.EM_X86_64, ATT, 0x1000, "488d0501200000", Other, "lea    0x2001(%rip),%rax        # 3008 <table+0x8>"},
		{elf.EM_X86_64, ATT, 0x1000, "ff2502100000", Jump, "jmp    *0x1002(%rip)        # 2008"},
		{elf.EM_X86_64, ATT, 0x1000, "ffd0", Call, "call   *%rax"},
		{elf.EM_X86_64, ATT, 0x1000, "f30f1efa", Other, "endbr64"},
		{elf.EM_X86_64, ATT, 0x1000, "c3", Other, "ret"},
		{elf.EM_X86_64, ATT, 0x1000, "6690", Other, "xchg   %ax,%ax"},
		{elf.EM_X86_64, ATT, 0x1000, "64488b042500000000", Other, "mov    %fs:0x0,%rax"},
		{elf.EM_X86_64, ATT, 0x1000, "48898530faffff", Other, "mov    %rax,-0x5d0(%rbp)"},
		{elf.EM_X86_64, ATT, 0x1000, "418b442414", Other, "mov    0x14(%r12),%eax"},
		{elf.EM_X86_64, ATT, 0x1000, "49894500", Other, "mov    %rax,0x0(%r13)"},
		{elf.EM_X86_64, ATT, 0x1000, "660f1f440000", Other, "nopw   0x0(%rax,%rax,1)"},
		{elf.EM_X86_64, ATT, 0x1000, "488d0c10", Other, "lea    (%rax,%rdx,1),%rcx"},
		{elf.EM_X86_64, ATT, 0x1000, "48b8efbeadde00000000", Other, "movabs $0xdeadbeef,%rax"},
		{elf.EM_X86_64, ATT, 0x1000, "48b8abaaaaaaaaaaaaaa", Other, "movabs $0xaaaaaaaaaaaaaaab,%rax"},
		{elf.EM_X86_64, ATT, 0x1000, "4898", Other, "cltq"},
		{elf.EM_X86_64, ATT, 0x1000, "c5f877", Other, "vzeroupper"},
		{elf.EM_X86_64, ATT, 0x1000, "62f1fe486f0d00100000", Other, "vmovdqu64 0x1000(%rip),%zmm1        # 200a"},
		{elf.EM_X86_64, ATT, 0x1000, "0f05", Call, "syscall"},
		{elf.EM_X86_64, ATT, 0x1000, "0f01ee", Other, ".byte  0x0f,0x01,0xee"},        // rdpkru
		{elf.EM_X86_64, ATT, 0x1000, "f30f01d9", Other, ".byte  0xf3,0x0f,0x01,0xd9"}, // vmgexit
		{elf.EM_X86_64, ATT, 0x1000, "06", Other, "(bad)"},
		{elf.EM_AARCH64, ATT, 0x1000, "00040094", Call, "bl     2000 <callee>"},
		{elf.EM_AARCH64, ATT, 0x1004, "e0ffff54", Jump, "b.eq   1000 <f>"},
		{elf.EM_AARCH64, ATT, 0x1004, "e0ffffb4", Jump, "cbz    x0, 1000 <f>"},
		{elf.EM_AARCH64, ATT, 0x1004, "e0ff1f37", Jump, "tbnz   w0, #3, 1000 <f>"},
		{elf.EM_AARCH64, ATT, 0x1ffc, "00000090", Other, "adrp   x0, 1000 <f>"},
		{elf.EM_AARCH64, ATT, 0x1000, "00003fd6", Call, "blr    x0"},
		{elf.EM_AARCH64, ATT, 0x1000, "c0035fd6", Other, "ret"},
		{elf.EM_AARCH64, ATT, 0x1000, "00000000", Other, ".inst  0x00000000"},
		{elf.EM_AARCH64, ATT, 0x1000, "0102", Other, ".byte  0x01,0x02"},
	} {
		code := unhex(t, c.code)
		list, err := All(c.machine, code, c.addr, c.syntax)
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %d instructions, %v; want %s", c.code, len(list), err, c.want)
			continue
		}
		if in := list[0]; in.Text(names) != c.want || in.Kind != c.kind || in.End() != c.addr+uint64(len(code)) {
			t.Errorf("%s: %q, kind %d, to %#x; want %q, kind %d", c.code, in.Text(names), in.Kind, in.End(),
				c.want, c.kind)
		}
	}
}

func TestOtherMachine(t *testing.T) {
	_, err := All(elf.EM_RISCV, []byte{1, 2}, 0, ATT)
	if err == nil || err.Error() != "cannot disassemble code of RISCV, only of x86-64 and arm64" {
		t.Errorf("%v", err)
	}
}

func TestLength(t *testing.T) {
	for _, code := range []string{
		"0f01ef", "c5f877", "c5fd6f0424", "c4e27d590d01020304", "c4e37d39c101", "62f17c48100425 01020304", "62f3fd48c2c101 ",
		"660f3a0fc108", "0f70c0ff", "62f57c48580c8d01020304", "420f380000", "0f0e",
	} {
		b := unhex(t, code)
		if n := escaped(append(b, 0x90, 0x90, 0x90)).Len; n != len(b) {
			t.Errorf("%s has %d bytes, want %d", code, n, len(b))
		}
		if n := escaped(b[:len(b)-1]).Len; n != 0 {
			t.Errorf("%s cut short has %d bytes, want none", code, n)
		}
	}
}

func TestSkip(t *testing.T) {
	code := unhex(t, "faffff 4889df e8c5fc0500 4889 d0") // the end of something; mov, call, mov
	skip := Skip(elf.EM_X86_64, code, 11)
	list, err := All(elf.EM_X86_64, code[skip:], 0x1000+uint64(skip), ATT)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range list {
		if in.End() == 0x1000+11 && in.Kind == Call {
			return
		}
	}
	t.Errorf("skipped %d bytes, found %v", skip, list)
}

// objdumps are the disassemblers to compare with.
var objdumps = map[elf.Machine][]string{elf.EM_X86_64: {"objdump"},
	elf.EM_AARCH64: {"aarch64-linux-gnu-objdump", "objdump"}}

// TestObjdump compares boundaries and targets of all instructions of complete
// programs with objdump's; it logs how many texts are equal.
func TestObjdump(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine elf.Machine
		path    func(t *testing.T) string
	}{
		{"libc", elf.EM_X86_64, libc},
		{"go", elf.EM_X86_64, func(t *testing.T) string { return goProgram(t, "amd64") }},
		{"arm64", elf.EM_AARCH64, func(t *testing.T) string { return goProgram(t, "arm64") }},
	} {
		t.Run(c.name, func(t *testing.T) { compareObjdump(t, c.machine, c.path(t)) })
	}
}

func libc(t *testing.T) string {
	for _, p := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Skip("no libc.so.6 of x86-64 here")
	return ""
}

func goProgram(t *testing.T, arch string) string {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go here to build a program for " + arch)
	}
	path := filepath.Join(t.TempDir(), "drops")
	cmd := exec.Command("go", "build", "-o", path, "gperf/internal/testutil/drops")
	cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return path
}

// line is an instruction in objdump's output: "  1040:\t48 89 fa \tmov ...".
var line = regexp.MustCompile(`^ *([0-9a-f]+):\t([0-9a-f ]+)(?:\t(.*))?$`)

// target is the target of a direct call or jump.
var target = regexp.MustCompile(
	`^(?:\S+,(?:pn|pt) |notrack |bnd )*(?:b[.a-z]*|call|j[a-z]+|loop[a-z]*|xbegin|cbn?z|tbn?z)\s.*?\b([0-9a-f]+) <`)

func compareObjdump(t *testing.T, machine elf.Machine, path string) {
	objdump := ""
	for _, name := range objdumps[machine] {
		// objdump reads headers of machines that it cannot disassemble.
		if out, err := exec.Command(name, "-f", path).Output(); err == nil && !bytes.Contains(out, []byte("UNKNOWN")) {
			objdump = name
			break
		}
	}
	if objdump == "" {
		t.Skipf("no objdump here that reads %s (binutils, binutils-aarch64-linux-gnu)", machine)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := f.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(objdump, "-d", "-w", "-j", ".text", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var n, texts, failed int
	sc := bufio.NewScanner(bytes.NewReader(out))
	fail := func(format string, args ...any) {
		if failed++; failed <= 20 {
			t.Errorf(format, args...)
		}
	}
	decode, err := decoderOf(machine)
	if err != nil {
		t.Fatal(err)
	}
	for sc.Scan() {
		m := line.FindStringSubmatch(sc.Text())
		if m == nil || m[3] == "" || strings.HasPrefix(m[3], "...") {
			continue
		}
		addr, err := strconv.ParseUint(m[1], 16, 64)
		if err != nil || addr < text.Addr || addr-text.Addr >= uint64(len(code)) {
			continue
		}
		n++
		in := decode(code[addr-text.Addr:], addr, ATT)
		length := len(strings.ReplaceAll(m[2], " ", "")) / 2
		if len(in.Bytes) != length {
			fail("%x: %d bytes, %q; objdump: %d bytes, %q", addr, len(in.Bytes), in.Text(nameless), length, m[3])
			continue
		}
		if to := target.FindStringSubmatch(m[3]); to != nil {
			if got := fmt.Sprintf("%x", in.Ref); !in.HasRef || got != to[1] || in.Kind == Other {
				fail("%x: %q leads to %s, kind %d; objdump: %q", addr, in.Text(nameless), got, in.Kind, m[3])
			}
		}
		if squeeze(in.Text(nameless)) == squeeze(m[3]) {
			texts++
		}
	}
	if n < 1000 {
		t.Fatalf("%s printed %d instructions", objdump, n)
	}
	t.Logf("%s: %d instructions, %d written as %s does (%.2f%%)", path, n, texts, objdump,
		100*float64(texts)/float64(n))
	// The others are aliases of mnemonics and orders of prefixes, and instructions
	// that x/arch does not know: on arm64 LSE's, on x86 wrpkru and the like.
	if texts < n*98/100 {
		t.Errorf("more than 2%% are written otherwise")
	}
	if failed > 20 {
		t.Errorf("%d differ in all", failed)
	}
}

var (
	blanks  = regexp.MustCompile(`\s+`)
	symbols = regexp.MustCompile(` <[^>]*>`)
	remarks = regexp.MustCompile(`\s//.*`)
	numbers = regexp.MustCompile(`\$-?0x[0-9a-f]+`)
)

// squeeze leaves out the redundant parts of a text, and known differences of
// notation: numbers below zero, remarks.
func squeeze(s string) string {
	s = remarks.ReplaceAllString(symbols.ReplaceAllString(s, ""), "")
	s = numbers.ReplaceAllStringFunc(s, func(n string) string {
		v, err := strconv.ParseInt(n[1:], 0, 64)
		if err != nil {
			u, _ := strconv.ParseUint(n[1:], 0, 64)
			v = int64(u)
		}
		return fmt.Sprintf("$%#x", uint16(v))
	})
	s = strings.ReplaceAll(s, " {%k", "{%k")
	return strings.TrimSpace(blanks.ReplaceAllString(s, " "))
}
