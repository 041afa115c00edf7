package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gperf/cmd/gperf/cli"
)

// perfLines are command lines with flags of perf's over the project's own
// recordings. gperf must print the same as perf 7.3.4: perf's output is in
// testdata/perf, and -update lets $PERF print it again.
var perfLines = []string{
	"script -i drops.data --reltime",
	"script -i two.data --deltatime --ns -F comm,tid,time,event",
	"script -i two.data --deltatime --show-task-events --show-mmap-events -F comm,time,event",
	"script -i drops.data --reltime --show-task-events -C 1 -F cpu,time,event",
	"script -i two.data -S do_syscall_64,vfs_statx",
	"script -i two.data -S 0xffffffff81e3fa10 --addr-range 16",
	"script -i drops.data -S ffffffff81e3fa00 --addr-range 256 -G",
	"script -i drops.data --dsos libc.so.6",
	"script -i two.data --dsos [kernel.kallsyms] --deltatime -G",
	"script -i two.data --dsos drops,[vdso] -G",
	"script -i two.data --dsos libc.so.6 -S do_syscall_64",
	"script -i two.data -c drops -G --reltime",
	"script -i two.data -c nosuch",
	"report -i threads.data -D",
	"report -i drops.data -D -q",
	"script -i drops.data -v -G",
	"script -i drops.data -a -G",
	"script -i drops.data --stop-bt ip_output,do_syscall_64",
	"script -i two.data --stop-bt vfs_statx,schedule --max-stack 4 -c drops --time 10%-20%",
	"script -i drops.data --demangle -G",

	"report -i threads.data -g none",
	"report -i threads.data --latency",
	"report -i threads.data --no-children -g none --sort parallelism,comm",
	"report -i threads.data --sort latency,comm -g none",
	"report -i threads.data --no-children -g none --sort tgid,comm,pid",
	"report -i threads.data --no-children -g none --sort symoff,comm",
	"report -i threads.data --no-children -g none --sort sym,symbol_size,dso_size",
	"report -i drops.data --no-children -g none --sort sym,symbol_size,dso_size,symoff",
	"report -i threads.data --no-children -g none --sort cgroup_id,cgroup,comm_nodigit",
	"report -i threads.data --no-children -g none --sort time,cgroup_id",
	"report -i threads.data --parallelism 2 --sort comm -g none",
	"report -i threads.data --latency -n --sort comm,sym -g none --percent-limit 20",
	"report -i threads.data -F latency,parallelism,comm -g none",
	"report -i two.data -q -g none --percent-limit 4",
	"report -i two.data -q --header --comm drops --sort dso -g none",
	"report -i two.data -U -g none --percent-limit 4",
	"report -i two.data -U --no-children --percent-limit 5",
	"report -i two.data --ignore-callees do_syscall_64 --no-children --percent-limit 6",
	"report -i two.data --ignore-callees ^vfs_ -g none --percent-limit 4",
	"report -i two.data --ignore-callees ^vfs_|^ip_ --sort dso,sym -g caller --no-children --percent-limit 6",
	"report -i two.data -w 10,20 --percent-limit 4 -g none",
	"report -i two.data -w 5,3,40,0 --no-children --percent-limit 3 -g none",
	"report -i two.data -n --show-total-period -w 8,5,6,12 --no-children --percent-limit 3 -g none",
	"report -i two.data -w 4,5 -t, --sort cpu,comm -g none",
	"report -i two.data --group -w 9 --sort comm,dso -g none --no-children",
	"report -i two.data --percentage relative --comm drops --percent-limit 4 -g none",
	"report -i two.data --percentage relative --dsos drops --no-children -g none",
	"report -i two.data --percentage relative -S do_syscall_64,schedule -n --no-children --percent-limit 10",
	"report -i two.data --percentage absolute -S do_syscall_64,schedule -n --no-children -g none",
	"report -i two.data -c nosuch --percentage relative -g none",
	"report -i drops.data --symbol-filter ip_ --sort comm,sym -g none",
	"report -i drops.data sk_skb --no-children --percentage relative -n --sort comm,sym",
	"report -i threads.data --tasks",
	"report -i threads.data --mmaps",
	"report -i two.data --mmaps",
	"report -i two.data -T --sort comm -g none",
	"report -i threads.data -T --sort comm -g none",
	"report -i threads.data -T --pretty raw --sort comm -g none",
	"report -i two.data -H -g none --no-children --percent-limit 3",
	"report -i two.data -H -g none --percent-limit 4",
	"report -i two.data -H -g none --no-children --sort {comm,dso},sym --percent-limit 2",
	"report -i two.data -H -g none --no-children --sort comm,dso,sym -t, --percent-limit 4",
	"report -i two.data -H -g none --no-children --sort {comm,prev_comm},sym --percent-limit 4",
	"report -i two.data -H -g none -n --show-total-period --sort dso,sym --no-children --percent-limit 5",
	"report -i two.data -H -g none --group -n --sort comm,dso --no-children",
	"report -i two.data -H -g none --dsos [vdso] --sort comm,dso,sym --no-children",
	"report -i drops.data -H -g none --sort location,comm",
	"report -i threads.data -H --latency --no-children -g none",
	"report -i threads.data -H --sort comm,parallelism -g none",
	"report -i two.data -v -g none --no-children --percent-limit 3",
	"report -i two.data -v --no-children --sort sym,dso --percent-limit 8",
	"report -i threads.data -v -g none --sort dso,sym",
	"report -i threads.data --sort time,comm --ns --time-quantum 10ms --no-children -g none",
	"report -i threads.data --sort time --time-quantum 50us --no-children -g none",
	"report -i two.data -p ^vfs_ -x --no-children -g none --percent-limit 3",
	"report -i two.data -p ^ip_ -x --sort parent,comm -g none",
	"report -i drops.data -S ffffffff81e3fa00 -c drops -g none --sort trace",

	"diff two.data threads.data",
	"diff threads.data two.data -p -F -s comm",
	"diff two.data threads.data drops.data -c ratio -s dso",
	"diff threads.data two.data -c wdiff:1,2 -F -s dso,sym -q",
	"diff two.data two.data -b -s comm,dso -c delta -o 0",
	"diff two.data threads.data -C drops -s comm,sym -t @",
	"diff two.data threads.data -S do_syscall_64,schedule --percentage relative -v",
}

func TestFlagsAsPerf(t *testing.T) {
	t.Setenv("TZ", "UTC")
	o, _ := findOracle()
	for _, line := range perfLines {
		t.Run(line, func(t *testing.T) {
			args := perfArgs(t, line)
			golden := filepath.Join(root, "testdata", "perf", notInFileNames.ReplaceAllString(line, "_")+".txt")
			want, err := os.ReadFile(golden)
			if o != nil && o.compat == "7.3" {
				want, err = unhandled.ReplaceAll(tipLine.ReplaceAll(o.output(t, args), nil), nil), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, want, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if args[0] == "report" {
				want = withoutIPC(want)
			}
			got, _ := gperf(t, args...)
			sameText(t, line, tipLine.ReplaceAllString(got, ""), string(want))
		})
	}
}

// withoutIPC removes the last column of perf report --sort symbol, which is empty without
// branch records.
func withoutIPC(text []byte) []byte {
	if !bytes.Contains(text, []byte("  IPC   [IPC Coverage]\n")) {
		return text
	}
	return emptyIPC.ReplaceAll(text, nil)
}

var emptyIPC = regexp.MustCompile(`(?m)  (IPC   \[IPC Coverage\]|\.{20}|-      - {12})$`)

// unhandled is printed by perf report -D where it does no more with a record.
var unhandled = regexp.MustCompile(`(?m)^: unhandled!\n|: unhandled!$`)

// perfArgs are the words of a line for gperf and perf: both find the recording, and
// no file of this machine.
func perfArgs(t *testing.T, line string) []string {
	t.Helper()
	dir := filepath.Join(root, "testdata")
	args := strings.Fields(line)
	for i, a := range args {
		if strings.HasSuffix(a, ".data") {
			args[i] = filepath.Join(dir, a)
		}
	}
	if args[0] == "report" {
		args = append(args, "--stdio")
	}
	return append(args, "-f", "--kallsyms", filepath.Join(dir, "kallsyms"), "--symfs", recordedFiles.dir)
}

// output is perf's output, regardless of the exit code.
func (o *oracle) output(t *testing.T, args []string) []byte {
	t.Helper()
	cmd := exec.Command(o.command[0], append(o.command[1:], args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+recordedFiles.dir)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out
}

// TestIdleFlags: flags of perf's that change nothing are accepted with a notice,
// those without which the result is another are refused with the reason.
func TestIdleFlags(t *testing.T) {
	for _, list := range []struct {
		command string
		flags   []cli.Idle
	}{{"script", cli.ScriptIdle}, {"report", cli.ReportIdleFlags}} {
		want, _ := gperf(t, perfArgs(t, list.command+" -i drops.data")...)
		for _, idle := range list.flags {
			name := idle.Name[strings.IndexByte(idle.Name, ',')+1:]
			t.Run(list.command+" --"+name, func(t *testing.T) {
				flag := "--" + name
				if idle.Value {
					flag += "=x"
				}
				var out, stderr bytes.Buffer
				code := run(append(perfArgs(t, list.command+" -i drops.data"), flag), &out, &stderr)
				switch explained := strings.Contains(stderr.String(), "--"+name) &&
					strings.Contains(stderr.String(), idle.Why); {
				case idle.Refused && (code != exitUsage || !explained || out.Len() > 0):
					t.Errorf("exit code %d, %d bytes, stderr %q", code, out.Len(), &stderr)
				case !idle.Refused && (code != exitOK || !explained || out.String() != want):
					t.Errorf("exit code %d, %d of %d bytes, stderr %q", code, out.Len(), len(want), &stderr)
				}
			})
		}
	}
}

func TestUnknownFlagHasSuggestion(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"script --reltim3", "did you mean --reltime"},
		{"report --precent-limit 3", "did you mean --percent-limit"},
		{"list --jsno", "did you mean --json"},
		{"probe --lisst", "did you mean --list"},
		{"evlist --verbsoe", "did you mean --verbose"},
		{"record --exclude-pref", "did you mean --exclude-perf"},
	} {
		t.Run(test.line, func(t *testing.T) {
			var out, stderr bytes.Buffer
			if code := run(strings.Fields(test.line), &out, &stderr); code != exitUsage ||
				!strings.Contains(stderr.String(), test.want) {
				t.Errorf("%s: exit code %d, %q; want %q", test.line, code, &stderr, test.want)
			}
		})
	}
}

// TestNegatedFlags: --no-FLAG turns a switch off.
func TestNegatedFlags(t *testing.T) {
	want, _ := gperf(t, perfArgs(t, "script -i two.data")...)
	got, _ := gperf(t, perfArgs(t, "script -i two.data --reltime --no-reltime")...)
	sameText(t, "--no-reltime", got, want)
}

// TestStdinArgument: an argument - is stdin, also to a command with flags whose value may be missing.
func TestStdinArgument(t *testing.T) {
	path := filepath.Join(root, "testdata", "two.data")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := gperf(t, "script", "-i", path)
	withStdin(t, string(data), func() int {
		got, _ := gperf(t, "script", "-")
		sameText(t, "script -", got, want)
		return exitOK
	})
}

// TestPerEventDump: each event's samples are in a separate file.
func TestPerEventDump(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(root, "testdata", "two.data"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "two.data")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	args := perfArgs(t, "script -G")
	args = append(args, "-i", file)
	all, _ := gperf(t, args...)
	out, _ := gperf(t, append(args, "--per-event-dump")...)
	for _, row := range []struct{ event, samples string }{{"cpu-clock", "cpu-clock:"},
		{"sched:sched_switch", "sched:sched_switch:"}} {
		t.Run(row.event, func(t *testing.T) {
			var want strings.Builder
			n := 0
			for line := range strings.Lines(all) {
				if strings.Contains(line, row.samples) {
					want.WriteString(line)
					n++
				}
			}
			got, err := os.ReadFile(file + "." + row.event + ".dump")
			if err != nil || n == 0 {
				t.Fatalf("%d samples of %s, %v", n, row.event, err)
			}
			sameText(t, row.event, string(got), want.String())
			if !strings.Contains(out, " "+file+"."+row.event+".dump (") {
				t.Errorf("the file of %s is not listed:\n%s", row.event, out)
			}
		})
	}
}
