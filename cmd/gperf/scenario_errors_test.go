package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gperf/record/perfevent"
)

// wrong is a wrong use of gperf record, or one that cannot be. Of want, all is
// said; the last of it is the way on.
type wrong struct {
	args []string
	code int
	want []string
}

func (c *wrong) check(t *testing.T, code int, stderr string) {
	t.Helper()
	if code != c.code {
		t.Errorf("%q: exit code %d, want %d\n%s", c.args, code, c.code, stderr)
	}
	for _, want := range c.want {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q: %q is missing in:\n%s", c.args, want, stderr)
		}
	}
	if m := internals.FindString(stderr); m != "" {
		t.Errorf("%q: %q means nothing to a user:\n%s", c.args, m, stderr)
	}
}

// internals are words of Go and of its libraries.
var internals = regexp.MustCompile(
	`\b(open|stat|lstat|readlink|read|write|fork/exec|strconv|elf|perf_event_open)[ ` +
		`.:]/?[A-Z/]|%!|\bnil\b|&\{|goroutine |panic`)

// checkWrong records each of the cases; class names them in the output.
func checkWrong(t *testing.T, class string, cases []wrong) {
	t.Run(class, func(t *testing.T) {
		for _, c := range cases {
			r := recordIn(t, t.TempDir(), append(c.args, "true")...)
			c.check(t, r.code, r.stderr)
		}
	})
}

func TestScenarioErrorsOfEvents(t *testing.T) {
	needTracepoints(t)
	event := func(e string, want ...string) wrong { return wrong{[]string{"-e", e}, exitUsage, want} }
	checkWrong(t, "names", []wrong{
		event("sched:sched_swich", `unknown event "sched:sched_swich"`, "did you mean sched:sched_switch", "`gperf list 'sched:*'`"),
		event("nosuch:*", "`gperf list 'nosuch:*'`", "`gperf list tracepoint`"),
		event("cpu-clocks", "did you mean cpu-clock", "`gperf list 'cpu*'`"),
		event("uprobes:./x:f", "did you mean uprobe:./x:f?"),
		event("probe:no_such", `unknown event "probe:no_such"`, "`gperf probe --list`", "kprobe:FUNCTION"),
		event("raw_tracepoint:sched_[", "the glob has an unbalanced bracket"),
		event("mem:no_such_symbol_here:w", "shows no symbol no_such_symbol_here in /proc/kallsyms", "use an address instead"),
		{[]string{"-a", "-e", "cpu-clock", "-G", "no-such-group"}, exitError, []string{`cgroup "no-such-group": `}},
		{[]string{"-u", "no-such-user", "-e", "cpu-clock"}, exitUsage, []string{"-u no-such-user: no such user"}},
		{[]string{"-p", "4194305", "-e", "cpu-clock"}, exitError, []string{"no such process: 4194305"}},
	})
	checkWrong(t, "terms", []wrong{
		event("cpu-clock/perid=1000/", "unknown term perid: did you mean period?", "There are: name period freq"),
		event("cpu-clock/period=many/", `term period: "many" is not a number`),
		event("cpu-clock/call-graph=lbr/", "lbr is not possible", "dwarf records complete stacks"),
		event("cpu-clock/period=1000", "the / after the terms"),
		event("cpu-clock:Q", "unknown modifier 'Q': there are u k h"),
	})
	checkWrong(t, "groups", []wrong{
		event("{cpu-clock,task-clock", "the group's } is missing"),
		event("{{cpu-clock,task-clock}}", "groups cannot be nested"),
		event("{cpu-clock}x", "a group can only be followed by modifiers (:u)"),
	})
	checkWrong(t, "filters", []wrong{
		{[]string{"-e", "sched:sched_switch", "--filter", "prev_pidd > 1"}, exitUsage, []string{"there is no field prev_pidd: did you mean prev_pid", "Its fields are: "}},
		{[]string{"-e", "sched:sched_switch", "--filter", "(prev_pid > 1"}, exitUsage, []string{"a ( has no )"}},
		{[]string{"-e", "sched:sched_switch", "--filter", "prev_comm > 1"}, exitUsage, []string{"prev_comm is text, which > cannot compare", "there are == != and ~"}},
		{[]string{"-e", "cpu-clock", "--filter", "x > 1"}, exitUsage, []string{"cpu-clock has no fields to filter by"}},
		{[]string{"--filter", "x > 1"}, exitUsage, []string{"--filter option should follow a -e tracepoint or probe"}},
	})
}

func TestScenarioErrorsOfPrograms(t *testing.T) {
	needProbes(t, "uprobe")
	plain, stripped, mark := functionsC.Path(t), functionsS.Path(t), usdtC.Path(t)
	register, other := "%di", "%rdi" // of the first argument, and its name in other tools
	if runtime.GOARCH == "arm64" {
		register, other = "%x0", "%r0"
	}
	at := func(place string, want ...string) wrong {
		return wrong{[]string{"-e", "uprobe:" + plain + ":" + place}, exitUsage, want}
	}
	checkWrong(t, "names", []wrong{
		at("func_d", "did you mean func_a, func_b, func_c?"),
		at("no_such_function", "`gperf list 'uprobe:"+plain+":*'` lists its functions"),
		at("nothing*", "`gperf list 'uprobe:"+plain+":*'` lists its functions"),
		at("func_c+9999", "func_c is 0x"),
		at("0x1", "there is no code at 0x1 of ", "`objdump -d`"),
		{[]string{"-e", "uprobe:no-such-library:f"}, exitUsage, []string{"no program of that name in $PATH, and no library in ld.so.cache", "./NAME"}},
		{[]string{"-e", "uprobe:./no-such-file:f"}, exitUsage, []string{"./no-such-file: no such file"}},
		{[]string{"-e", "uprobe:" + plain}, exitUsage, []string{"expected uprobe:FILE:FUNCTION"}},
		{[]string{"-e", "usdt:" + mark + ":shop:sael"}, exitUsage, []string{"did you mean shop:sale?"}},
		{[]string{"-e", "usdt:" + mark + ":shop:sale $arg9"}, exitUsage, []string{"the USDT probe sale has 3 arguments"}},
		{[]string{"-e", "usdt:" + plain + ":a:b"}, exitUsage, []string{"it has no USDT probes", "`readelf -n`"}},
	})
	checkWrong(t, "what is read", []wrong{
		at("func_c "+register+":int", `"int" is not a type: use u8`),
		at("func_c "+other, "did you mean "+register),
		at("func_c "+register+":string", "+0("+register+"):string"),
		at("func_c $retval", "kretprobe or uretprobe"),
		{[]string{"-e", "uretprobe:" + plain + ":func_c+1"}, exitUsage, []string{"a return probe needs a function without an offset"}},
		{[]string{"-e", "uprobe:" + plain + ":func_c n"}, exitError, []string{"has no DWARF", "compile with -g", "Registers do not: use $arg1"}},
	})
	checkWrong(t, "stripped", []wrong{
		{[]string{"-e", "uprobe:" + stripped + ":func_c"}, exitUsage, []string{"it is stripped: ", "uprobe:" + stripped + ":0x1234", "-dbgsym"}},
	})
	checkWrong(t, "filters", []wrong{
		{[]string{"-e", "uprobe:" + plain + ":func_c n=" + register, "--filter", "m > 1"}, exitUsage, []string{"there is no field m: did you mean n?"}},
	})
}

func TestScenarioErrorsInlined(t *testing.T) {
	needProbes(t, "uprobe")
	program := functionsDebug.Path(t)
	checkWrong(t, "inlined", []wrong{
		{[]string{"-e", "uprobe:" + program + ":add"}, exitUsage, []string{"inlined everywhere: probe an inlined call, such as func_c+0x"}},
	})
}

func TestScenarioErrorsOfKernel(t *testing.T) {
	needProbes(t, "kprobe")
	at := func(e string, want ...string) wrong { return wrong{[]string{"-a", "-e", e}, exitUsage, want} }
	checkWrong(t, "names", []wrong{
		at("kprobe:ip_rvc", "the kernel has no function ip_rvc: did you mean ip_rcv", "gperf list 'kprobe:*ip_rvc*'"),
		at("kprobe:no_such_function_*", "gperf list 'kprobe:*no_such_function_*'"),
		at("kprobe:no_such_module:f", "the module no_such_module is not loaded", "modprobe no_such_module"),
		at("kprobe:ip_rcv+100000", "ip_rcv is only "),
		at("kprobe:kprobe_dispatcher", "kprobe_dispatcher cannot be probed: ", "gperf list 'kprobe:*kprobe_dispatcher*'"),
		at("kprobe:start_kernel", "start_kernel cannot be probed: ", "gperf list 'kprobe:*start_kernel*'"),
		at("kprobe:ip_rcv a=%nosuch", "no register %nosuch; the registers are %"),
		at("kretprobe:ip_rcv+4", "it has no offset"),
		at("kprobe:ip_rcv $retval", "kretprobe or uretprobe"),
	})
	checkWrong(t, "inlined", []wrong{at("kprobe:skb_headlen", "It may be inlined everywhere",
		"gperf list 'kprobe:*skb_headlen*'")})
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil {
		checkWrong(t, "what is read", []wrong{
			at("kprobe:ip_rcv skbb->len", "ip_rcv has no variable skbb: did you mean skb", "`gperf probe --vars ip_rcv`"),
			at("kprobe:ip_rcv skb->lenn", "struct sk_buff has no member lenn: did you mean len"),
			at("kprobe:ip_rcv skb->len:u9", `"u9" is not a type: use u8`),
		})
	}
}

// The error for a kernel without kprobes says so.
func TestScenarioErrorsWithoutKprobes(t *testing.T) {
	needTracepoints(t)
	if _, err := os.Stat(filepath.Join(tracefsRoot, "kprobe_events")); err == nil {
		t.Skip("this kernel has kprobes")
	}
	checkWrong(t, "kprobe", []wrong{
		{[]string{"-a", "-e", "kprobe:ip_rcv"}, exitError, []string{"this kernel has no kprobes", "CONFIG_KPROBE_EVENTS", "gperf list tracepoint"}},
		{[]string{"-a", "-e", "kretprobe:ip_*"}, exitError, []string{"this kernel has no kprobes", "gperf list tracepoint"}},
	})
}

// Errors name the missing right and how to get it.
func TestScenarioErrorsOfRights(t *testing.T) {
	if p := perfevent.Paranoid(); p <= 0 {
		t.Skipf("kernel.perf_event_paranoid is %d: it lets everybody record everything", p)
	}
	for _, c := range []wrong{
		{[]string{"-a", "-e", "cpu-clock"}, exitError, []string{"permission denied", "kernel.perf_event_paranoid"}},
		{[]string{"-e", "sched:sched_switch"}, exitError, []string{"tracefs", "CAP_DAC_READ_SEARCH and CAP_PERFMON"}},
		{[]string{"-e", "uprobe:libc:malloc"}, exitError, []string{"tracefs", "CAP_DAC_"}},
		{[]string{"-e", "mem:0x1000:w", "-p", "1"}, exitError, []string{"kernel.perf_event_paranoid"}},
	} {
		out, code := runAs(t, nobody, "record "+strings.Join(c.args, " ")+" true")
		c.check(t, code, out)
	}
}
