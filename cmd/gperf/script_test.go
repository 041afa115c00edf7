package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gperf/cmd/gperf/cli"
	"gperf/internal/dso"
	"gperf/internal/testutil/programs"
	"gperf/internal/testutil/recording"
)

// oracle is stock perf: $PERF, which may be a command with arguments, or perf.
type oracle struct {
	command []string
	version string
	compat  string // the value of --compat with which gperf prints the same
}

var findOracle = sync.OnceValues(func() (*oracle, error) {
	command := strings.Fields(os.Getenv("PERF"))
	if len(command) == 0 {
		command = []string{"perf"}
	}
	out, err := exec.Command(command[0], append(command[1:], "--version")...).Output()
	if err != nil {
		return nil, fmt.Errorf("stock perf is not there to compare with (Debian: linux-perf; or name it in $PERF): %w",
			err)
	}
	o := &oracle{command: command, version: strings.TrimSpace(strings.TrimPrefix(string(out), "perf version "))}
	major, minor, _ := strings.Cut(o.version, ".")
	minor, _, _ = strings.Cut(minor, ".")
	ma, _ := strconv.Atoi(major)
	mi, _ := strconv.Atoi(minor)
	switch {
	case ma == 6 && mi == 1:
		o.compat = "6.1"
	case ma == 7 && mi >= 3:
		o.compat = "7.3"
	default:
		return nil, fmt.Errorf("perf %s: gperf prints like 6.1 and 7.3, so there is nothing to compare", o.version)
	}
	return o, nil
})

func needOracle(t *testing.T) *oracle {
	t.Helper()
	o, err := findOracle()
	if err != nil {
		t.Skip(err)
	}
	return o
}

func (o *oracle) run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(o.command[0], append(slices.Clone(o.command[1:]), args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+recordedFiles.dir, "GOFLAGS=-buildvcs=false")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	return string(out), err
}

// perfPrints returns the output of perf 7.3.4, without a report's tip: now, if it is
// $PERF, or when -update wrote it to testdata/perf, to a file with the names of the
// test and of the case.
func perfPrints(t *testing.T, name string, args ...string) string {
	t.Helper()
	golden := filepath.Join(root, "testdata", "perf", notInFileNames.ReplaceAllString(t.Name()+" "+name, "_")+".txt")
	o, _ := findOracle()
	if o == nil || o.compat != "7.3" { // perf 6.1 prints some of these otherwise
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text, err := o.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	text = tip.ReplaceAllString(text, "")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// asPerf compares the outputs of gperf and perf 7.3.4 for a file, with each of these command lines.
// Neither finds a file of this machine.
func asPerf(t *testing.T, file string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			args := append(strings.Fields(line), "-f", "-i", file)
			if args[0] == "report" || args[0] == "script" {
				args = append(args, "--kallsyms", filepath.Join(root, "testdata", "kallsyms"), "--symfs",
					recordedFiles.dir)
			}
			if args[0] == "report" {
				args = append(args, "--stdio")
			}
			want := perfPrints(t, "", args...)
			got, _ := gperf(t, args...)
			sameText(t, line, tip.ReplaceAllString(got, ""), want)
		})
	}
}

// record records a workload with perf, or skips the test where it may not.
func (o *oracle) record(t *testing.T, file string, args ...string) {
	t.Helper()
	if _, err := o.run(t, slices.Concat([]string{"record", "-N", "-o", file}, args)...); err != nil {
		if os.Geteuid() != 0 {
			t.Skipf("not root, and CAP_PERFMON is missing: %v", err)
		}
		t.Fatal(err)
	}
}

// gperf runs gperf in this process.
func gperf(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs outputText
	if code := run(args, &out, &errs); code != exitOK {
		t.Fatalf("gperf %s: exit code %d\n%s", strings.Join(args, " "), code, errs.String())
	}
	return out.String(), errs.String()
}

// outputText is the output of gperf in a test's process. As to a file, several goroutines may write to it: a push
// reports problems while a recording is read.
type outputText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *outputText) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *outputText) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// sameText fails at the first line in which two texts differ.
func sameText(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var gl, wl string
		if i < len(g) {
			gl = g[i]
		}
		if i < len(w) {
			wl = w[i]
		}
		if gl != wl {
			t.Fatalf("%s: line %d of %d and %d:\ngperf %q\nwant  %q", what, i+1, len(g), len(w), gl, wl)
		}
	}
}

// alike returns texts of gperf and perf without the differences due to perf 6.1: it finds fewer names of PLT entries
// ("malloc@plt+0x0", ".plt+0x6"), and some wrong ones, and prints the names of C++ functions in another way. Where a
// call is the last instruction of a function, perf names the function after it. It names no function of stripped Go
// programs.
func (o *oracle) alike(got, want string) (string, string) {
	if o.compat != "6.1" || len(got) == 0 {
		return got, want
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(g) != len(w) {
		return got, want
	}
	for i := range g {
		switch {
		case g[i] == w[i]:
		case strings.Contains(g[i]+w[i], "plt+"):
			g[i], w[i] = firstWord(g[i]), firstWord(w[i])
		case sameCXX(g[i], w[i]), sameCaller(g[i], w[i]):
			g[i] = w[i]
		case strings.Contains(w[i], " [unknown] (/memfd:"): // gperf reads it from the running process
			g[i] = w[i]
		case gperfNames(g[i], w[i]):
			g[i] = w[i]
		}
	}
	return strings.Join(g, "\n"), strings.Join(w, "\n")
}

// symbolLine matches a line with a symbol: the part up to the address, the symbol, and its offset and DSO.
var symbolLine = regexp.MustCompile(`^(.*\s[0-9a-f]{4,16}) (\S.*)(\+0x[0-9a-f]+ \(.*\))$`)

// cxxName matches the names of C++ functions.
var cxxName = regexp.MustCompile(`::|\)( const)?$`)

// sameCXX reports whether two lines differ in the name of a C++ function alone.
func sameCXX(got, want string) bool {
	g, w := symbolLine.FindStringSubmatch(got), symbolLine.FindStringSubmatch(want)
	return g != nil && w != nil && g[1] == w[1] && g[3] == w[3] && cxxName.MatchString(g[2])
}

// gperfNames reports whether two lines differ in that gperf alone names a function: of a stripped Go program, which has
// its functions in .gopclntab, or of a file of which perf reads no symbol. Any program may run while all CPUs are
// recorded.
func gperfNames(got, want string) bool {
	g := symbolLine.FindStringSubmatch(got)
	if g == nil {
		return false
	}
	_, file, _ := strings.Cut(g[3], " ")
	if want != g[1]+" [unknown] "+file {
		return false
	}
	im, err := dso.Open(strings.Trim(file, "()"))
	if err != nil {
		return false
	}
	defer im.Close()
	return im.HasGoTable() && !im.HasSymtab() || hasLostSymbol(im.Path)
}

// hasLostSymbol reports whether a function or variable in a file's symbol tables is in a section that does not exist:
// perf reads no symbol of such a file (dso__load_sym_internal of tools/perf/util/symbol-elf.c). BOLT writes such
// tables, for example for Rust's compiler.
func hasLostSymbol(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	symbols, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	return slices.ContainsFunc(append(symbols, dynamic...), func(s elf.Symbol) bool {
		kind := elf.ST_TYPE(s.Info)
		return (kind == elf.STT_FUNC || kind == elf.STT_OBJECT) && s.Section < elf.SHN_LORESERVE &&
			int(s.Section) >= len(f.Sections)
	})
}

// loseSymbol writes a copy of a program of which one function is in a section that does not exist.
func loseSymbol(t *testing.T, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "main" })
	if err != nil || i < 0 {
		t.Fatalf("no main in %s: %v", program, err)
	}
	entry := f.Section(".symtab").Offset + uint64(i+1)*elf.Sym64Size // Symbols leaves entry 0 out
	data[entry+6] = byte(len(f.Sections))                            // st_shndx
	path := filepath.Join(t.TempDir(), "lost")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGperfNames(t *testing.T) {
	stripped := programs.Go("testdata/growth.go", "-ldflags=-s -w").Path(t)
	whole := deepProgram.Path(t)
	lost := loseSymbol(t, whole)
	const sample = " growth 20575 [001] 62434.673903:    1001001 cpu-clock:ppp:           180182f "
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{sample + "main.leaf+0x2f (" + stripped + ")", sample + "[unknown] (" + stripped + ")", true},
		{sample + "main.leaf+0x2f (" + stripped + ")", sample + "main.deep+0x2f (" + stripped + ")", false},
		{sample + "main+0x2f (" + lost + ")", sample + "[unknown] (" + lost + ")", true},
		{sample + "main+0x2f (" + whole + ")", sample + "[unknown] (" + whole + ")", false},
		{sample + "main.leaf+0x2f (/bin/sh)", sample + "[unknown] (/bin/sh)", false},
		{sample + "main.leaf+0x2f (/no)", sample + "[unknown] (/no)", false},
	} {
		if got := gperfNames(c.got, c.want); got != c.same {
			t.Errorf("%q and %q: %t", c.got, c.want, got)
		}
	}
}

// callerLine matches a line of a stack: its address, its symbol, the offset, and the DSO.
var callerLine = regexp.MustCompile(`^\t\s+([0-9a-f]+) (\S.*)\+(0x[0-9a-f]+) (\(.*\))$`)

// sameCaller reports whether two lines of a stack are of the same address, at which perf's function begins and gperf's
// ends.
func sameCaller(got, want string) bool {
	g, w := callerLine.FindStringSubmatch(got), callerLine.FindStringSubmatch(want)
	return g != nil && w != nil && g[1] == w[1] && g[4] == w[4] && w[3] == "0x0" && g[3] != "0x0"
}

func TestSameCaller(t *testing.T) {
	const gperf, perf = "\t           1ab78 _start+0x8 (/ld.so)", "\t           1ab78 _dl_start_user+0x0 (/ld.so)"
	if !sameCaller(gperf, perf) {
		t.Errorf("%q and %q are not the same caller", gperf, perf)
	}
	for _, other := range []string{
		"\t           1ab79 _start+0x8 (/ld.so)", "\t           1ab78 _start+0x8 (/libc.so)", "\t           1ab78 f+0x0 (/ld.so)",
	} {
		if sameCaller(other, perf) {
			t.Errorf("%q and %q are the same caller", other, perf)
		}
	}
	if sameCaller(perf, gperf) {
		t.Errorf("%q and %q are the same caller", perf, gperf)
	}
}

func TestSameCXX(t *testing.T) {
	const sample = " cc1 20575 [001] 62434.673903:    1001001 cpu-clock:ppp:           180182f "
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{sample + "f(int)+0x2f (/cc1)", sample + "f+0x2f (/cc1)", true},
		{sample + "int ns::f<(a)1>(int)+0x2f (/cc1)", sample + "ns::f<(a)1>+0x2f (/cc1)", true},
		{"\t180182f f(int) const+0x2f (/cc1)", "\t180182f f+0x2f (/cc1)", true},
		{sample + "f(int)+0x2f (/cc1)", strings.Replace(sample, "180182f", "180182e", 1) + "f+0x2f (/cc1)", false},
		{sample + "f(int)+0x2f (/cc1)", sample + "f+0x2e (/cc1)", false},
		{sample + "f(int)+0x2f (/cc1)", sample + "f+0x2f (/cc2)", false},
		{sample + "f+0x2f (/cc1)", sample + "g+0x2f (/cc1)", false},
		{"saddrv6=::1 sport=4", "saddrv6=::1 sport=5", false},
	} {
		if got := sameCXX(c.got, c.want); got != c.same {
			t.Errorf("%q and %q: %t", c.got, c.want, got)
		}
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word
}

// sends is a workload that provokes drops: datagrams to a port that nobody
// listens on.
const sends = `for i in $(seq 300); do echo > /dev/udp/127.0.0.1/9; done`

// recordings are recordings of perf that gperf must print as perf does.
var recordings = []struct {
	name string
	args []string
}{
	{"drops", []string{"-a", "-g", "-e", "skb:kfree_skb", "--", "bash", "-c", sends}},
	{"go-build", []string{"-e", "cpu-clock", "-g", "--", "go", "build", "-a", "unicode", "unicode/utf8", "math"}},
	{"everywhere", []string{"-F", "999", "-a", "--", "sleep", "0.5"}},
	{"fixed-period", []string{"-c", "100000", "-e", "cpu-clock", "-g", "--", "ls", "-lR", "/etc"}},
	{"two-events", []string{"-e", "sched:sched_switch,cpu-clock", "-g", "--", "ls", "-lR", "/etc"}},
	{"syscalls", []string{"-e", "syscalls:sys_*_get*,syscalls:sys_*_new*,syscalls:sys_*_open*,syscalls:sys_*_m*", "--", "ls", "-lR", "/etc"}},
}

// recorded makes the recordings once for all tests.
var recordedFiles = struct {
	sync.Mutex
	dir   string
	files map[string]string
}{files: map[string]string{}}

func recordedBy(t *testing.T, o *oracle, name string, args []string) string {
	t.Helper()
	r := &recordedFiles
	r.Lock()
	defer r.Unlock()
	if len(r.files) == 0 {
		// perf names addresses of the vdso only if its cache has it.
		if _, err := o.run(t, "record", "--buildid-all", "-o", filepath.Join(r.dir, "vdso.data"), "--",
			"true"); err != nil {
			t.Logf("filling perf's cache: %v", err)
		}
	}
	if r.files[name] == "" {
		file := filepath.Join(r.dir, name+".data")
		o.record(t, file, args...)
		r.files[name] = file
	}
	return r.files[name]
}

func TestMain(m *testing.M) {
	if args := os.Getenv(commandEnv); args != "" {
		stdout, stderr := cli.Outputs(os.Stdout, os.Stderr)
		os.Exit(run(strings.Fields(args), stdout, stderr))
	}
	var err error
	if recordedFiles.dir, err = os.MkdirTemp("", "gperf-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := programs.Run(m)
	os.RemoveAll(recordedFiles.dir)
	os.Exit(code)
}

func TestScriptEqualsPerfAlone(t *testing.T) {
	o := needOracle(t)
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			file := recordedBy(t, o, r.name, r.args)
			want, err := o.run(t, "script", "--no-inline", "-i", file)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := gperf(t, "script", "--no-inline", "--compat", o.compat, "-i", file)
			if strings.Count(got, "\n") < 20 {
				t.Errorf("only %d lines: the recording is too short for this test", strings.Count(got, "\n"))
			}
			got, want = o.alike(got, want)
			sameText(t, r.name, got, want)
		})
	}
}

func TestFoldedEqualsStackcollapseAlone(t *testing.T) {
	o := needOracle(t)
	for _, r := range recordings {
		file := recordedBy(t, o, r.name, r.args)
		text, _ := gperf(t, append(withPIDs, "-i", file)...) // perf's, as the test above says
		for _, c := range foldedFlags {
			t.Run(r.name+" "+c.flags, func(t *testing.T) {
				want := stackcollapsed(t, text, c.options)
				if chains := slices.Contains(r.args, "-g"); chains == (want == "") {
					t.Errorf("%d bytes from a recording with callchains: %v", len(want), chains)
				}
				got, _ := gperf(t, append([]string{"script", "--format", "folded", "--tidy", "-i", file},
					strings.Fields(c.flags)...)...)
				sameText(t, r.name, withoutStarts(t, got), withoutStarts(t, want))
			})
		}
	}
}

// startName is the name that gperf makes for a function without a symbol, where stackcollapse-perf.pl has only its DSO.
var startName = regexp.MustCompile(`;([^;]+)\+0x[0-9a-f]+(;|_\[k\]| )`)

// withoutStarts returns folded stacks with only the DSOs of functions without a symbol, and with the callers of perf's
// text.
func withoutStarts(t *testing.T, folded string) string {
	t.Helper()
	stacks := map[string]uint64{}
	for line := range strings.Lines(folded) {
		for startName.MatchString(line) {
			line = startName.ReplaceAllString(line, ";[$1]$2")
		}
		line = strings.ReplaceAll(line, ";[vdso]", ";[[vdso]]") // the DSO's name has brackets of its own
		// The dynamic linker's start calls from one and returns to the other; perf's text has the latter.
		line = strings.ReplaceAll(line, ";_dl_start_user", ";_start")
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseUint(strings.TrimSpace(line[at+1:]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		stacks[line[:at]] += n
	}
	return foldedText(stacks)
}

// withPIDs has all in the text that stackcollapse-perf.pl reads.
var withPIDs = []string{"script", "--no-inline", "-F", "sw:comm,pid,tid,time,period,event,ip,sym,dso", "-F",
	"trace:comm,pid,tid,time,event,trace,ip,sym,dso"}

// foldedFlags are gperf's flags, after --tidy, and the options of stackcollapse-perf.pl.
var foldedFlags = []struct {
	flags   string
	options recording.FoldOptions
}{
	{"", recording.FoldOptions{}},
	{"--pid", recording.FoldOptions{Pid: true}},
	{"--tid", recording.FoldOptions{Tid: true}},
	{"--kernel", recording.FoldOptions{Kernel: true}},
	{"--jit --addrs", recording.FoldOptions{JIT: true, Addrs: true}},
	{"--tid --all --addrs", recording.FoldOptions{Tid: true, Kernel: true, JIT: true, Addrs: true}},
}

// TestFoldedFlags is the same for the recordings that are there.
func TestFoldedFlags(t *testing.T) {
	dir := filepath.Join(root, "testdata")
	for _, name := range []string{"drops.data", "two.data", "records.data"} {
		args := []string{"-i", filepath.Join(dir, name), "--kallsyms", filepath.Join(dir, "kallsyms"),
			"--symfs", t.TempDir()}
		text, _ := gperf(t, slices.Concat(withPIDs, args)...)
		for _, c := range foldedFlags {
			for _, command := range []string{"script", "report"} {
				got, _ := gperf(t, slices.Concat([]string{command, "--format", "folded", "--tidy"}, args,
					strings.Fields(c.flags))...)
				sameText(t, command+" "+name+" "+c.flags, got, stackcollapsed(t, text, c.options))
			}
		}
	}
}

// stackcollapsed is the output of stackcollapse-perf.pl for a script's text.
func stackcollapsed(t *testing.T, text string, o recording.FoldOptions) string {
	t.Helper()
	stacks, err := recording.Fold(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return foldedText(stacks)
}

func foldedText(stacks map[string]uint64) string {
	var b strings.Builder
	for _, s := range slices.Sorted(maps.Keys(stacks)) {
		fmt.Fprintf(&b, "%s %d\n", s, stacks[s])
	}
	return b.String()
}

// The flags for samples, fields and stacks select the same output as perf's flags.
func TestScriptFlagsEqualPerfsAlone(t *testing.T) {
	o := needOracle(t)
	file := recordedBy(t, o, recordings[0].name, recordings[0].args)
	all, _ := gperf(t, "script", "-i", file, "-F", "tid,time", "--ns")
	lines := strings.Split(strings.TrimSpace(all), "\n")
	third := strings.Fields(lines[len(lines)/3])
	tid, time := third[0], strings.TrimSuffix(third[1], ":")
	for _, flags := range [][]string{
		{"-F", "comm,pid,tid,cpu,time,event,trace"},
		{"-F", "comm,ip,sym"},
		{"-F", "trace:time,event,trace,ip,sym,symoff,dso"},
		{"-F", "+pid"},
		{"-F", "-trace"},
		{"-G"},
		{"--ns"},
		{"--max-stack", "3"},
		{"-C", "0"},
		{"--tid", tid},
		{"--pid", tid},
		{"--comms", "bash"},
		{"--time", time + ","},
		{"--time", "," + time},
		{"--time", "10%-40%"},
		{"--time", "25%/2"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			args := append([]string{"script", "--no-inline", "-i", file}, flags...)
			want, err := o.run(t, args...)
			if err != nil && strings.Contains(err.Error(), "no first/last sample time found") {
				t.Skipf("perf %s does not find the times that it recorded", o.version)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := gperf(t, append(args, "--compat", o.compat)...)
			got, want = o.alike(got, want)
			sameText(t, strings.Join(flags, " "), got, want)
		})
	}
}

// Further fields that a sample can carry are printed as perf prints them.
func TestScriptFieldsEqualPerfsAlone(t *testing.T) {
	o := needOracle(t)
	if o.compat != "7.3" {
		t.Skip("perf 6.1 does not know all of these")
	}
	for _, r := range []struct {
		name   string
		args   []string
		fields []string
	}{
		{"memory", []string{"-e", "cpu-clock", "-F", "4000", "--sample-cpu", "-d", "--phys-data", "-W", "--data-page-size", "--code-page-size",
			"--intr-regs", "--user-regs=ax,bx,ip,sp,r12", "--all-cgroups", "--", "ls", "-lR", "/etc"},
			[]string{"comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,addr,phys_addr,data_src,weight,ins_lat,retire_lat,data_page_size,code_page_size,cgroup,iregs,uregs",
				"iregs", "uregs,ip", "addr,ip,sym", "cgroup,misc,ip", "+addr,-period", "bpf-output", "sw:addr"}},
		{"faults", []string{"-e", "page-faults", "-c", "1", "-d", "-g", "--", "ls", "/"}, []string{"addr,ip,sym,symoff,dso", "addr,dso", "+addr", "addr,sym"}},
		{"clock", []string{"-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-g", "--", "ls", "/"}, []string{"tod,ip", "+tod,-time"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			file := recordedBy(t, o, "fields-"+r.name, r.args)
			for _, fields := range r.fields {
				args := []string{"script", "--no-inline", "-i", file, "-F", fields}
				want, err := o.run(t, args...)
				if err != nil {
					t.Fatal(err)
				}
				got, _ := gperf(t, args...)
				sameText(t, fields, got, want)
			}
		})
	}
}

// The text is the same however many goroutines make it.
func TestScriptOrderAlone(t *testing.T) {
	o := needOracle(t)
	r := recordings[len(recordings)-1]
	file := recordedBy(t, o, r.name, r.args)
	want, _ := gperf(t, "script", "-i", file)
	for range 3 {
		got, _ := gperf(t, "script", "-i", file)
		sameText(t, "a second time", got, want)
	}
}

func TestScriptErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\necho hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"script", exitError, "no perf.data in this directory: record one with gperf record, or name one with -i"},
		{"script -i nothere", exitError, "nothere: no such file or directory"},
		{"script -i text", exitError, `text: at offset 0x0: the file begins with "#!/bin/s" instead of "PERFILE2": not a perf.data file`},
		{"script -i .", exitError, "no recordings"},
		{"script --nonsense", exitUsage, "unknown flag: --nonsense"},
		{"script text", exitError, `text: at offset 0x0: the file begins with "#!/bin/s" instead of "PERFILE2"`},
		{"script text text", exitUsage, `unexpected argument "text": name a file with -i`},
		{"script -F comm,nonsense", exitUsage, `unknown field "nonsense": the fields are comm, tid, `},
		{"script -F x:comm", exitUsage, `unknown event type "x"`},
		{"script -F comm,+pid", exitUsage, "cannot be mixed"},
		{"script --format xml", exitUsage, "--format xml: use text, folded, pprof, flamegraph, svg, speedscope, "},
		{"script --compat 5", exitUsage, "--compat 5: use 7.3 or 6.1"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(strings.Fields(tc.args), &out, &errs)
			if code != tc.code || !strings.Contains(errs.String(), tc.want) {
				t.Errorf("gperf %s: exit code %d, want %d; stderr:\n%swant: %s", tc.args, code, tc.code,
					errs.String(), tc.want)
			}
		})
	}
}
