package main

import (
	"bytes"
	"debug/elf"
	bin "encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gperf/internal/testutil/programs"
)

var mixProgram = programs.C("testdata/mix.c", "-O2", "-g")

// percentLine is an instruction with the printed percentage.
var percentLine = regexp.MustCompile(`(?m)^ +(\d+\.\d\d) :(.)(.) *([0-9a-f]+):\s+(.*)$`)

// percents returns the percentages and addresses of a block's instructions.
func percents(text string) (l []string) {
	for _, m := range percentLine.FindAllStringSubmatch(text, -1) {
		l = append(l, m[1]+" "+m[4])
	}
	return l
}

// blockOf returns the block of a function from text with several blocks.
func blockOf(text, function string) string {
	for block := range strings.SplitSeq(text, " Percent |") {
		if strings.Contains(block, "<"+function+">:\n") {
			return " Percent |" + block
		}
	}
	return ""
}

// TestAnnotateEqualsPerfAlone: the title and each instruction's part are perf's.
func TestAnnotateEqualsPerfAlone(t *testing.T) {
	o := needOracle(t)
	file := perfRecord(t, o, "-e", "cpu-clock:u", "-F", "999", "-g", "--", mixProgram.Path(t))
	// of global-hits, perf 6.1 shows zeros
	for _, flags := range []string{"mix", "mix --no-source", "mix --percent-type local-hits",
		"--percent-type global-period"} {
		t.Run(flags, func(t *testing.T) {
			args := append([]string{"annotate", "--stdio", "-i", file}, strings.Fields(flags)...)
			want, err := o.run(t, args...)
			want = blockOf(want, "mix")
			if err != nil || len(percents(want)) == 0 {
				t.Skipf("perf annotates nothing here (it takes objdump): %v\n%s", err, want)
			}
			got, _ := gperf(t, args...)
			got = blockOf(got, "mix")
			if title := regexp.MustCompile(`(?m)^ Percent .*\n-+\n`); title.FindString(got) != title.FindString(want) {
				t.Errorf("the title is\n%swant\n%s", title.FindString(got), title.FindString(want))
			}
			if got, want := percents(got), percents(want); !slices.Equal(got, want) {
				t.Errorf("instructions:\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func TestAnnotateSource(t *testing.T) {
	needEvents(t)
	dir := t.TempDir()
	mustRecord(t, dir, "-g", "-F", "999", "-e", "cpu-clock:u", "--", mixProgram.Path(t))
	file := filepath.Join(dir, "perf.data")
	src, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	// The sources may have been elsewhere when it was compiled.
	text, _ := gperf(t, "annotate", "-i", file, "-l", "-g", "mix", "--prefix", src, "--prefix-strip", "99")
	for _, want := range []string{`(?m)^ +: 9 +x \+= rand\(\);$`,
		`(?m)^ +[1-9]\d*\.\d\d :   [0-9a-f]+:   call .*<rand.*> // mix\.c:9$`,
		`Sorted summary for file .*\n-+\n\n +\d+\.\d\d mix\.c:\d+\n`, `samples: sampled, callers; percent: local period`} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if text, _ := gperf(t, "annotate", "-i", file, "mix", "-n", "-M", "intel", "--asm-raw", "-S"); !regexp.MustCompile(
		`(?m)^ Samples \|\t(.*\n){4,}? +\d+ :   [0-9a-f]+:   48 89 f[a8] +mov    r.., rdi$`).MatchString(text) {
		t.Errorf("not Intel's syntax with bytes:\n%s", text)
	}
}

// kernelOfDrops writes a kernel with the build ID of that in drops.data, which
// has a page of code: in the place where __udp4_lib_rcv is, it drops.
func kernelOfDrops(t *testing.T) string {
	t.Helper()
	const text, page, headers = 0xffffffff81000000, 0xffffffff82043000, 0x1000
	code := bytes.Repeat([]byte{0x90}, 0x1000)
	copy(code[0xaff:], unhexed(t, "4c89e7 be02000000")) // mov %r12,%rdi; mov $2,%esi
	code[0xb07] = 0xe8                                  // call
	target := uint64(0xffffffff81e3f980)
	bin.LittleEndian.PutUint32(code[0xb08:], uint32(target-page-0xb0c))
	copy(code[0xb0c:], unhexed(t, "31c0 ebe0")) // xor %eax,%eax; jmp
	id := unhexed(t, "6ecd6ec21ec69416e50a8aa6737e500901ddb47a")
	notes := slices.Concat(u32s(4, uint32(len(id)), 3), []byte("GNU\x00"), id)
	names := []byte("\x00.text\x00.shstrtab\x00")

	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64,
		Shoff: 0x400, Ehsize: 64,
		Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var b bytes.Buffer
	put := func(off int, parts ...any) {
		b.Write(make([]byte, off-b.Len()))
		for _, p := range parts {
			if err := bin.Write(&b, bin.LittleEndian, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, h, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_X), Off: headers, Vaddr: page,
		Filesz: 0x1000, Memsz: 0x1000},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 0x200, Filesz: uint64(len(notes)), Align: 4})
	put(0x200, notes)
	put(0x300, names)
	put(0x400, elf.Section64{}, elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS),
		Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: text, Off: headers, Size: 0x1000},
		elf.Section64{Name: 7, Type: uint32(elf.SHT_STRTAB), Off: 0x300, Size: uint64(len(names))})
	put(headers, code)
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func u32s(v ...uint32) (b []byte) {
	for _, w := range v {
		b = bin.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func unhexed(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ofDrops is a command line over drops.data.
func ofDrops(t *testing.T, args ...string) []string {
	dir := filepath.Join("..", "..", "testdata")
	return append([]string{"annotate", "-i", filepath.Join(dir, "drops.data"), "--kallsyms",
		filepath.Join(dir, "kallsyms"), "--symfs", t.TempDir()}, args...)
}

// TestAnnotateDrop: from where a drop is said to have been to the call that did
// it, without debug information.
func TestAnnotateDrop(t *testing.T) {
	vmlinux := kernelOfDrops(t)
	const title = " Percent |\tSource code & Disassembly of [kernel.kallsyms] for skb:kfree_skb (%s; percent: local " +
		"period)\n"
	const block = `         : ffffffff82043650 <__udp4_lib_rcv>:
         : ...
    0.00 :   ffffffff82043aff:   mov    %r12,%rdi
    0.00 :   ffffffff82043b02:   mov    $0x2,%esi
  100.00 : > ffffffff82043b07:   call   ffffffff81e3f980 <sk_skb_reason_drop>
         : __udp4_lib_rcv+0x4bc:
    0.00 :   ffffffff82043b0c:   xor    %eax,%eax
    0.00 :   ffffffff82043b0e:   jmp    ffffffff82043af0 <__udp4_lib_rcv+0x4a0>
         : ...

`
	for _, row := range []struct{ place, counted string }{
		{"__udp4_lib_rcv+0x4bc", "5 samples: location, callers"},
		{"__udp4_lib_rcv+0x4bc/0xd00", "5 samples: location, callers"},
		{"0xffffffff82043b0c", "5 samples: location, callers"},
		{"ffffffff82043b0c", "5 samples: location, callers"},
	} {
		t.Run(row.place, func(t *testing.T) {
			got, _ := gperf(t, ofDrops(t, "-k", vmlinux, "--context", "2", row.place)...)
			head := strings.Replace(title, "%s", row.counted, 1)
			want := head + strings.Repeat("-", len(head)+4) + "\n" +
				strings.ReplaceAll(block, "__udp4_lib_rcv+0x4bc:", row.place+":")
			sameText(t, row.place, got, want)
		})
	}
	whole, _ := gperf(t, ofDrops(t, "-k", vmlinux, "__udp4_lib_rcv")...)
	if !strings.Contains(whole, "(5 samples: location; percent") ||
		!strings.Contains(whole, "  100.00 :   ffffffff82043b07:   call ") {
		t.Errorf("the function's drops are not at their call:\n%s", whole)
	}
}

// TestAnnotateWrong: errors of annotate name the cause and the remedy.
func TestAnnotateWrong(t *testing.T) {
	vmlinux := kernelOfDrops(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-k " + vmlinux + " __udp4_lib_rvc", exitError, "no samples in __udp4_lib_rvc\nDid you mean __udp4_lib_rcv"},
		{"-k " + vmlinux + " xyzzy", exitError, "`gperf report` lists"},
		{"-k " + vmlinux + " ip_output", exitError, "no samples in ip_output itself\n5 samples were taken in its callees: -g counts its calls.\n"},
		{"-k " + vmlinux + " __udp4_lib_rcv+0x2000", exitUsage, "__udp4_lib_rcv+0x2000 lies after the end of the function, which has 0xd00 bytes"},
		{"__udp4_lib_rcv", exitError, "no code of [kernel.kallsyms] (build id 6ecd6ec21ec69416e50a8aa6737e500901ddb47a): no vmlinux found; "},
		{"-k " + mixProgram.Path(t) + " __udp4_lib_rcv", exitError, "build id mismatch"},
		{"0x408a8e", exitError, "no such file\n--symfs names a directory"},
		{"0xnumber", exitUsage, `"0xnumber" is not an address`},
		{"f+0xyz", exitUsage, `"0xyz" is not an offset`},
		{"a b", exitUsage, "give one symbol or address"},
		{"-M masm", exitUsage, "use att or intel"},
		{"--percent-type local", exitUsage, "local-period, local-hits"},
		{"--context -1", exitUsage, "negative"},
		{"-n --show-total-period", exitUsage, "exclude each other"},
		{"--percent-limit x", exitUsage, "invalid percentage"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(ofDrops(t, strings.Fields(c.args)...), &stdout, &stderr)
			if code != c.code || !strings.Contains(strings.ToLower(stderr.String()), strings.ToLower(c.want)) ||
				stdout.Len() > 0 {
				t.Errorf("%s: exit code %d, %q, stdout %q; want %d and %q", c.args, code, &stderr, &stdout,
					c.code, c.want)
			}
		})
	}
}

// TestRecordAnnotateDrop: the same on the running kernel, whose code is in
// memory.
func TestRecordAnnotateDrop(t *testing.T) {
	needTracepoints(t)
	kcore, err := os.Open("/proc/kcore")
	if err != nil {
		t.Skipf("the kernel's memory cannot be read (CAP_SYS_RAWIO, CONFIG_PROC_KCORE, no lockdown): %v", err)
	}
	kcore.Close()
	dir := t.TempDir()
	mustRecord(t, dir, "-g", "-e", "skb:kfree_skb", "--", binary(t, dropsProgram), "-n", "20")
	file := filepath.Join(dir, "perf.data")
	location := regexp.MustCompile(`location=(\S*udp\S*\+0x[0-9a-f]+)`).FindStringSubmatch(mustGperf(t,
		"script", "-i", file))
	if location == nil {
		t.Skip("no drop is said to be at a function of UDP here")
	}
	text := mustGperf(t, "annotate", "-i", file, location[1])
	if !regexp.MustCompile(
		`(?m)^ +[1-9]\d*\.\d\d : > [0-9a-f]+:   (call|bl) +[0-9a-f]+ <\w*(skb|free|drop)\w*>$`).MatchString(text) {
		t.Errorf("%s leads to no call that drops:\n%s", location[1], text)
	}
	// An archive has that code, for where another kernel runs.
	packed := filepath.Join(dir, "packed")
	mustGperf(t, "archive", "-i", file, "-o", packed)
	path := regexp.MustCompile(`\S*/kcore\b`)
	elsewhere := mustGperf(t, "annotate", "-i", packed, location[1])
	sameText(t, "annotate of the archive", path.ReplaceAllString(elsewhere, "kcore"),
		path.ReplaceAllString(text, "kcore"))
}
