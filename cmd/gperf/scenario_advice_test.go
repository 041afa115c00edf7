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
	deepC    = programs.C("testdata/deep.c", "-O1", "-fno-omit-frame-pointer")
)

// completePart is the part of the stacks that is complete, in per cent.
var completePart = regexp.MustCompile(`User stacks: \d+ complete \(([\d.]+)%\)`)

// jitPHP and jitLua spend the time in functions that PHP and LuaJIT compile.
const (
	jitPHP = `<?php
function leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += $i % 7; } return $s; }
function outer($n) { $s = 0; for ($i = 0; $i < $n; $i++) { $s += leaf(2000); } return $s; }
for ($i = 0; $i < 2000; $i++) { outer(50); }
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

// largerRings is the advice about lost samples.
var largerRings = regexp.MustCompile(`Lost (\d+) samples.*now (\d+) pages, -m (\d+)`)

// Larger rings (-m), as the summary advises, lose fewer samples: until none is lost, or the advice was followed a few
// times.
func TestScenarioAdviceRings(t *testing.T) {
	needEvents(t)
	record := func(pages string) (lost int, advised, text string) {
		r := recordIn(t, t.TempDir(), "-e", "raw_syscalls:sys_enter", "-c", "1", "-m", pages, "--",
			"dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=60000", "status=none")
		if r.code != exitOK {
			t.Skipf("no system calls can be recorded here:\n%s", r.stderr)
		}
		if m := largerRings.FindStringSubmatch(r.stderr); m != nil {
			lost, _ = strconv.Atoi(m[1])
			return lost, m[3], r.stderr
		}
		return 0, "", r.stderr
	}
	first, pages, text := record("1")
	if first == 0 {
		t.Skipf("a page is sufficient:\n%s", text)
	}
	lost := first
	for range 6 { // 4,096 pages hold all, even if gperf does not run
		if lost == 0 {
			break
		}
		var next string
		if lost, next, text = record(pages); next != "" {
			pages = next
		}
	}
	if lost*2 > first {
		t.Errorf("%d samples were lost with one page, %d with larger rings:\n%s", first, lost, text)
	}
}

// Frame pointers, as the summary advises, show the callers in a 32-bit program, which gperf does not unwind.
func TestScenarioAdviceOf32Bits(t *testing.T) {
	needEvents(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is that of i386")
	}
	const startsAt = smallBase + 52 + 32
	program := smallELF(t, false, []byte{
		0x31, 0xed, // xor %ebp, %ebp
		0xbe, 0x90, 1, 0, 0, // mov $400, %esi
		0xe8, 12, 0, 0, 0, // call outer
		0x4e, 0x75, 0xf8, // dec %esi; jnz to the call
		0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80, // exit(0)
		0x55, 0x89, 0xe5, 0xe8, 2, 0, 0, 0, 0x5d, 0xc3, // outer: push %ebp; mov %esp, %ebp; call leaf; pop %ebp; ret
		0x55, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f, 0, // leaf: push %ebp; mov %esp, %ebp; mov $1000000, %ecx
		0x49, 0x75, 0xfd, // dec %ecx; jnz to it
		0x5d, 0xc3, // pop %ebp; ret
	})
	if err := exec.Command(program).Run(); err != nil {
		t.Skipf("the kernel does not run 32-bit programs: %v", err)
	}
	callers := regexp.MustCompile(`(?m)^\s+80480[0-9a-f]+ .*\n\s+` + strconv.FormatUint(startsAt+32, 16) + ` .*\n\s+` +
		strconv.FormatUint(startsAt+12, 16) + " ")
	for _, c := range []struct {
		how     []string
		callers bool
	}{{[]string{"-g"}, false}, {[]string{"--call-graph", "fp"}, true}} {
		dir := t.TempDir()
		r := mustRecord(t, dir, append(append([]string{"-e", "cpu-clock:u", "-F", "499"}, c.how...), "--", program)...)
		if !c.callers && !completePart.MatchString(r.stderr) {
			t.Skipf("no BPF program can be loaded here:\n%s", r.stderr)
		}
		const advice = "32-bit code is not unwound (try --call-graph fp)"
		if strings.Contains(r.stderr, advice) == c.callers {
			t.Errorf("%v: the summary says\n%s", c.how, r.stderr)
		}
		out := mustGperf(t, "script", "-F", "ip,sym", "-i", filepath.Join(dir, "perf.data"))
		if found := callers.MatchString(out); found != c.callers {
			t.Errorf("%v: callers are found: %v\n%.1000s", c.how, found, out)
		}
	}
}

// calledJava spends the time in a method that another one calls.
const calledJava = `import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;

public class Called {
	static long leaf(long n) { long s = 0; for (long i = 0; i < n; i++) s += i % 7; return s; }
	static long outer(long n) { long s = 0; for (int i = 0; i < n; i++) s += leaf(20000 + s % 3); return s; }
	public static void main(String[] a) {
		ThreadMXBean threads = ManagementFactory.getThreadMXBean();
		long s = 0, end = threads.getCurrentThreadCpuTime() + 3000000000L;
		while (threads.getCurrentThreadCpuTime() < end) s += outer(100);
		System.out.println(s);
	}
}
`

// Java with frame pointers, as the summary advises, yields complete stacks where gperf may not read the virtual
// machine's structures: Java is another user's, and the recorder lacks CAP_SYS_PTRACE.
func TestScenarioAdviceJava(t *testing.T) {
	needEvents(t)
	needPrograms(t, "java", "javac", "setpriv")
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "gperf-java-") // other than t.TempDir, for everyone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "Called.java")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(calledJava), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("javac", "-d", dir, file).CombinedOutput(); err != nil { // its own stacks would count
		t.Fatalf("javac: %v\n%s", err, out)
	}
	record := func(flags ...string) (stderr string, complete float64) {
		args := []string{"--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", binary(t, "./cmd/gperf"), "record",
			"-o", filepath.Join(t.TempDir(), "perf.data"), "-e", "cpu-clock:u", "-F", "499", "-g", "--",
			"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
			"java", "-XX:+UseSerialGC", "-XX:CompileCommand=dontinline,Called::leaf"}
		cmd := exec.Command("setpriv", append(append(args, flags...), "-cp", dir, "Called")...)
		var errs strings.Builder
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil {
			t.Skipf("java cannot be recorded: %v\n%s", err, &errs)
		}
		m := completePart.FindStringSubmatch(errs.String())
		if m == nil {
			t.Skipf("no BPF program can be loaded here:\n%s", &errs)
		}
		complete, _ = strconv.ParseFloat(m[1], 64)
		return errs.String(), complete
	}
	const flag = "-XX:+PreserveFramePointer"
	without, before := record()
	if before > 90 {
		t.Skipf("stacks are complete without the advice:\n%s", without)
	}
	if !strings.Contains(without, "(java "+flag+")") {
		t.Errorf("%s is not advised:\n%s", flag, without)
	}
	if with, after := record(flag); after < 95 {
		t.Errorf("with %s:\n%s", flag, with)
	}
}

// Larger copies of stacks, as script advises, are complete, and so are the stacks of -g.
func TestScenarioAdviceCopies(t *testing.T) {
	needEvents(t)
	program := deepC.Path(t)
	record := func(how ...string) (whole, all int, stderr string) {
		data := filepath.Join(t.TempDir(), "perf.data")
		args := append([]string{"-o", data, "-e", "cpu-clock:u", "-F", "199"}, how...)
		mustRecord(t, t.TempDir(), append(args, "--", program)...)
		text, stderr := gperf(t, "script", "-F", "ip,sym", "-i", data)
		for stack := range strings.SplitSeq(text, "\n\n") {
			if strings.Contains(stack, " leaf\n") { // not of the program's start
				if all++; strings.Contains(stack+"\n", " main\n") {
					whole++
				}
			}
		}
		return whole, all, stderr
	}
	advised := regexp.MustCompile(`\d+ stacks are larger than their copies of (\d+) bytes: ` +
		`record with gperf record -g, which copies no stacks, or with larger copies \(--call-graph (dwarf,copy,\d+)\)`)
	whole, all, stderr := record("--call-graph", "dwarf,copy,4096")
	m := advised.FindStringSubmatch(stderr)
	if m == nil || m[1] != "4096" || all == 0 || whole > 0 {
		t.Fatalf("%d of %d stacks reach main, script says\n%s", whole, all, stderr)
	}
	for _, how := range [][]string{{"--call-graph", m[2]}, {"-g"}} {
		whole, all, stderr := record(how...)
		if strings.Contains(stderr, "larger than their copies") || all == 0 || whole < all*99/100 {
			t.Errorf("%v: %d of %d stacks reach main, script says\n%s", how, whole, all, stderr)
		}
	}
}
