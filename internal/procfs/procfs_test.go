package procfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

func TestParseMaps(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Mapping
	}{
		{"file", "55a23c5a2000-55a23c663000 r-xp 0002f000 fe:01 1024                       /usr/bin/bash\n",
			Mapping{Start: 0x55a23c5a2000, End: 0x55a23c663000, Off: 0x2f000, Major: 0xfe, Minor: 1, Inode: 1024, Prot: 5, Path: "/usr/bin/bash"}},
		{"anonymous", "7f0000000000-7f0000001000 rwxs 00000000 00:00 0 \n",
			Mapping{Start: 0x7f0000000000, End: 0x7f0000001000, Prot: 7, Shared: true}},
		{"spaces", "7fff0000-7fff1000 r--p 00000000 00:01 7 /tmp/with two  spaces (deleted)",
			Mapping{Start: 0x7fff0000, End: 0x7fff1000, Minor: 1, Inode: 7, Prot: 1, Path: "/tmp/with two  spaces (deleted)"}},
		{"line feed", "7fff0000-7fff1000 r-xp 00000000 00:01 7 /tmp/line\\012feed",
			Mapping{Start: 0x7fff0000, End: 0x7fff1000, Minor: 1, Inode: 7, Prot: 5, Path: "/tmp/line\nfeed"}},
		{"vsyscall", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
			Mapping{Start: 0xffffffffff600000, End: 0xffffffffff601000, Prot: 4, Path: "[vsyscall]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := slices.Collect(ParseMaps(c.line)); !slices.Equal(got, []Mapping{c.want}) {
				t.Errorf("%q:\n got %+v\nwant %+v", c.line, got, c.want)
			}
		})
	}
	for _, line := range []string{"", "\n", "x", "1-2", "2000-1000 r-xp 0 00:00 0 x", "1000-2000 rx 0 00:00 0 x",
		"1000-2000 r-xp 0 0000 0 x", "1000-2000 r-xp 0 100000000:00 0 x"} {
		if got := slices.Collect(ParseMaps(line)); len(got) > 0 {
			t.Errorf("%q is parsed as %+v", line, got)
		}
	}
}

func TestMapsOfThisProcess(t *testing.T) {
	maps, err := Maps(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := func(m Mapping) bool { return m.Path == self && m.Executable() }
	if !slices.ContainsFunc(slices.Collect(maps), own) {
		t.Fatalf("no code of %s among the mappings", self)
	}
}

// TestMapsWithoutLeader: a process whose first thread has exited has the mappings of the others.
func TestMapsWithoutLeader(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed (package gcc)")
	}
	const source = `#include <pthread.h>
#include <unistd.h>
static void *wait(void *arg) { char c; read(0, &c, 1); _exit(0); }
int main(void) { pthread_t t; pthread_create(&t, 0, wait, 0); pthread_exit(0); }`
	program := filepath.Join(t.TempDir(), "program")
	cc := exec.Command(gcc, "-pthread", "-x", "c", "-o", program, "-")
	cc.Stdin = strings.NewReader(source)
	if msg, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	status := func() string { // of the first thread: its mappings are empty when it has exited
		text, err := readFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for !strings.Contains(status(), "State:\tZ") {
		time.Sleep(time.Millisecond)
	}
	maps, err := Maps(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	own := func(m Mapping) bool { return m.Path == program && m.Executable() }
	if !slices.ContainsFunc(slices.Collect(maps), own) {
		t.Errorf("no code of %s among the mappings", program)
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add("55a23c5a2000-55a23c663000 r-xp 0002f000 fe:01 1024   /usr/bin/bash\n")
	f.Add("0-1 ---p 0 0:0 0")
	f.Fuzz(func(t *testing.T, text string) {
		for m := range ParseMaps(text) {
			if m.End <= m.Start {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}

func TestParseStatus(t *testing.T) {
	st := parseStatus(
		"Name:\tkworker/0:0-events\nUmask:\t0000\nState:\tI " +
			"(idle)\nTgid:\t9\nNgid:\t0\nPid:\t9\nPPid:\t2\nNStgid:\t9\t1\nThreads:\t3\n")
	if st.Name != "kworker/0:0-eve" || st.Tgid != 9 || st.PPid != 2 || !slices.Equal(st.NStgid, []int{9, 1}) ||
		st.Threads != 3 {
		t.Errorf("%+v", st)
	}
	if st := parseStatus(`Name:	a\nb\\c` + "\nPPid:\t1\n"); st.Name != "a\nb\\c" {
		t.Errorf("name %q", st.Name)
	}
}

func TestSockets(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range pair {
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || !slices.Contains(Sockets(os.Getpid()), st.Ino) {
			t.Errorf("socket %d is not among %v: %v", st.Ino, Sockets(os.Getpid()), err)
		}
		syscall.Close(fd)
	}
	if l := Sockets(-1); len(l) > 0 {
		t.Errorf("no process has sockets: %v", l)
	}
}

func TestParseModules(t *testing.T) {
	l := parseModules(
		"nf_nat 57344 2 nft_nat,xt_MASQUERADE, Live 0xffffffffc0a01000\nhidden 1 0 - Live 0x0000000000000000\nbad\n" +
			"spread 1000000 1 - Live 0xffffffffc0a00000\n")
	if !slices.Equal(l, []Module{{"spread", 0xffffffffc0a00000, 0x1000}, {"nf_nat", 0xffffffffc0a01000, 57344}}) {
		t.Errorf("%+v", l)
	}
}

// symbols reads kallsyms, and returns the text of each symbol.
func symbols(t *testing.T, r io.Reader) (l []string) {
	t.Helper()
	for s, err := range Symbols(r) {
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, fmt.Sprintf("%x %c %s %s", s.Addr, s.Type, s.Name(), s.Module()))
	}
	return l
}

func TestSymbols(t *testing.T) {
	got := symbols(t,
		strings.NewReader("ffffffff81000000 T _stext\nbad\n0000 T\nx T y\nffffffffc0a01000 t nf_nat_init\t[nf_nat]\n"+
			"ffffffffc0b02100 t bpf_prog_6d\t[bpf]"))
	want := []string{"ffffffff81000000 T _stext ", "ffffffffc0a01000 t nf_nat_init nf_nat",
		"ffffffffc0b02100 t bpf_prog_6d bpf"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	var bpf []string
	text := strings.NewReader("1 t a\t[bpf]\n2 t b\nbad\t[bpf]\n3 t [bpf]c\n4 t d\t[bpf]")
	for s := range SymbolsWithSuffix(text, "\t[bpf]") {
		bpf = append(bpf, s.Label)
	}
	if want := []string{"a\t[bpf]", "d\t[bpf]"}; !slices.Equal(bpf, want) {
		t.Errorf("with suffix: %q, want %q", bpf, want)
	}
	for _, c := range []struct {
		kind     byte
		function bool
	}{{'t', true}, {'W', true}, {'D', false}, {'A', false}} {
		if (Symbol{Type: c.kind}).IsFunction() != c.function {
			t.Errorf("type %c: want function %v", c.kind, c.function)
		}
	}
}

// TestSymbolsAcrossChunks reads a text longer than a chunk, in pieces of any length.
func TestSymbolsAcrossChunks(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := range 20_000 {
		fmt.Fprintf(&text, "%016x T function_%d\n", i+1, i)
		want = append(want, fmt.Sprintf("%x T function_%d ", i+1, i))
	}
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text.String()),
		"halves":       iotest.HalfReader(strings.NewReader(text.String())),
		"with the end": iotest.DataErrReader(strings.NewReader(text.String()))} {
		if got := symbols(t, r); !slices.Equal(got, want) {
			t.Errorf("%s: %d symbols, want %d equal ones", name, len(got), len(want))
		}
	}
}

func TestSymbolsErrors(t *testing.T) {
	failed := errors.New("failed")
	for name, r := range map[string]io.Reader{"read": iotest.ErrReader(failed),
		"line without end": strings.NewReader(strings.Repeat("a", 3*chunkSize))} {
		var last error
		for _, err := range Symbols(r) {
			last = err
		}
		if last == nil || name == "read" && !errors.Is(last, failed) {
			t.Errorf("%s: error %v", name, last)
		}
	}
}

func TestSwitches(t *testing.T) {
	const text = "Name:\tx\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
	if n, asleep := parseSwitches(text); n != 15 || !asleep {
		t.Errorf("%d switches, asleep %v", n, asleep)
	}
	if _, asleep := parseSwitches("State:\tR (running)\n"); asleep {
		t.Error("a running thread sleeps")
	}
}
