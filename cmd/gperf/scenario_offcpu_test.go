package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/testutil/programs"
)

var waiterProgram = programs.C("../../testdata/programs/waiter.c", "-O2", "-fomit-frame-pointer", "-pthread")

// needOffCPU skips where BPF programs cannot record waits.
func needOffCPU(t *testing.T) {
	t.Helper()
	needRecording(t, "CAP_BPF and CAP_PERFMON are missing, or the kernel's BTF is", "--off-cpu")
}

// waitsIn are the functions in which the threads of waiter.c wait.
var waitsIn = map[string]string{"lock": "hold_lock", "pipe": "read_pipe", "disk": "slow_disk", "sleep": "sleep_long",
	"short": "sleep_short"}

// waited is the output of a thread of waiter.c: times in ns, by the thread's clock.
type waited struct {
	name       string
	waits, cpu float64
	inside     float64 // in the functions that wait
	ready      float64 // while its CPU ran other threads
	n          float64 // waits
}

// recordWaits records waiter.c for some ms. It returns the output of the threads, by tid, and the lines that
// gperf script prints about the recording.
func recordWaits(t *testing.T, ms int, flags ...string) (own map[string]waited, lines []string, stderr string) {
	t.Helper()
	dir := t.TempDir()
	args := append(append([]string{"--off-cpu"}, flags...), "--", waiterProgram.Path(t), strconv.Itoa(ms), dir)
	r := mustRecord(t, dir, args...)
	own = map[string]waited{}
	for line := range strings.Lines(r.stdout) {
		var w waited
		var tid string
		var wall float64
		if _, err := fmt.Sscan(line, &w.name, &tid, &wall, &w.waits, &w.inside, &w.cpu, &w.ready, &w.n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		own[tid] = w
	}
	if len(own) != 5 {
		t.Fatalf("%d threads:\n%s", len(own), r.stdout)
	}
	file := filepath.Join(dir, "perf.data")
	out, _ := gperf(t, "script", "-i", file, "-F", "comm,tid,event,period,ip,sym", "--no-inline")
	return own, strings.Split(out, "\n"), r.stderr
}

// The stack of each wait continues with the stack of the thread or interrupt that ended it, for single samples and for
// sums.
func TestScenarioOffCPUWaker(t *testing.T) {
	needOffCPU(t)
	ms := strconv.Itoa(patience(300)) // the first wakers' stacks end where a table is missing
	for _, thresh := range []string{"0", "100000"} {
		dir := t.TempDir()
		mustRecord(t, dir, "--off-cpu", "--waker", "--off-cpu-thresh", thresh, "-g", "--",
			waiterProgram.Path(t), ms, dir)
		file := filepath.Join(dir, "perf.data")
		folded, _ := gperf(t, "report", "-i", file, "--format", "folded")
		for _, want := range []string{
			`(?m)^lock;.*;hold_lock;.*;woken by holder;.*;holder;.*;try_to_wake_up \d+$`,
			`(?m)^pipe;.*;read_pipe;.*;woken by writer;.*;writer;.*;try_to_wake_up \d+$`,
			`(?m)^sleep;.*;sleep_long;.*;woken by swapper;.*hrtimer_wakeup;(?:wake_up_process;)?try_to_wake_up \d+$`,
		} {
			if !regexp.MustCompile(want).MatchString(folded) {
				t.Errorf("--off-cpu-thresh %s: no %s in\n%s", thresh, want, folded)
			}
		}
		by, _ := gperf(t, "report", "-i", file, "--format", "folded", "--by", "waker_comm")
		if !strings.Contains(by, "waker_comm=writer;pipe;") {
			t.Errorf("--off-cpu-thresh %s: no waits for the writer in\n%s", thresh, by)
		}
	}
}

// Waits and wakers pass pipes, switched files, PID namespaces and archives; without samples there are none.
func TestScenarioOffCPUElsewhere(t *testing.T) {
	needOffCPU(t)
	dir := t.TempDir()
	flags := []string{"--off-cpu", "--waker", "-g", "--", waiterProgram.Path(t), "300", dir}
	folded := func(file string) string {
		out, stderr := gperf(t, "report", "-i", file, "--format", "folded")
		if !strings.Contains(out, "read_pipe;") || !strings.Contains(out, ";woken by writer;") {
			t.Errorf("%s: no pipe that the writer wakes in\n%s%s", file, out, stderr)
		}
		return out
	}
	t.Run("pipe and archive", func(t *testing.T) {
		mustRecord(t, dir, flags...)
		file := filepath.Join(dir, "perf.data")
		want := folded(file)
		gperf(t, "archive", "-i", file, "-o", filepath.Join(dir, "a.zip"))
		if got := folded(filepath.Join(dir, "a.zip")); got != want {
			t.Errorf("archive: %s\nwant %s", got, want)
		}
		piped := filepath.Join(dir, "piped")
		r := recordIn(t, dir, append([]string{"-o", "-"}, flags...)...)
		if err := os.WriteFile(piped, []byte(r.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		folded(piped)
	})
	t.Run("switched files", func(t *testing.T) {
		mustRecord(t, dir, "-o", "switched", "--switch-output=1s", "--off-cpu", "--waker", "-g", "--",
			waiterProgram.Path(t), "1300", dir)
		files, _ := filepath.Glob(filepath.Join(dir, "switched.*"))
		all := ""
		for _, f := range files {
			out, _ := gperf(t, "report", "-i", f, "--format", "folded")
			all += out
		}
		if len(files) < 2 || !strings.Contains(all, ";woken by writer;") {
			t.Errorf("%d files:\n%s", len(files), all)
		}
	})
	t.Run("namespace", func(t *testing.T) {
		inside := []string{"-p", "-f", "--mount-proc"}
		if out, err := exec.Command("unshare", append(inside, "true")...).CombinedOutput(); err != nil {
			t.Skipf("unshare: %v: %s", err, out)
		}
		file := filepath.Join(dir, "inside")
		cmd := slices.Concat(inside, []string{binary(t, "./cmd/gperf"), "record", "-o", file}, flags)
		if out, err := exec.Command("unshare", cmd...).CombinedOutput(); err != nil {
			t.Fatalf("unshare %v: %v\n%s", cmd, err, out)
		}
		folded(file)
	})
	t.Run("no samples", func(t *testing.T) {
		mustRecord(t, dir, append([]string{"-n", "-o", "none"}, flags...)...)
		if out, _ := gperf(t, "script", "-i", filepath.Join(dir, "none")); strings.Contains(out, "offcpu") {
			t.Errorf("-n: %s", out)
		}
	})
}

// waitsOf returns the first samples of a thread, of lines that gperf script prints.
func waitsOf(lines []string, tid string) string {
	var l []string
	for s := range strings.SplitSeq(strings.Join(lines, "\n"), "\n\n") {
		if f := strings.Fields(s); len(f) > 1 && f[1] == tid && len(l) < 50 {
			l = append(l, s)
		}
	}
	return strings.Join(l, "\n\n")
}

// inMemory reports whether a directory is in memory: fsync does not wait there.
func inMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil &&
		slices.Contains([]int64{unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.RAMFS_MAGIC}, st.Type)
}

// The waits of each thread take as long as by the thread's own clock, whether they are single
// samples or sums, and with all kinds of stacks.
func TestScenarioOffCPU(t *testing.T) {
	needOffCPU(t)
	for name, flags := range map[string][]string{
		"single": {"-g", "--off-cpu-thresh", "0"}, "default": {"-g"}, "sums": {"-g", "--off-cpu-thresh", "100000"},
		"fp": {"--call-graph", "fp"}, "no stacks": {"--off-cpu-thresh", "100000"},
		"with samples": {"-F", "999", "-e", "cpu-clock", "-g"},
	} {
		t.Run(name, func(t *testing.T) {
			own, lines, stderr := recordWaits(t, 400, flags...)
			// Waits elsewhere do not count: a busy disk delays the threads' first instructions.
			got, samples, ran := map[string]float64{}, map[string]int{}, map[string]float64{}
			tid, ns := "", 0.0
			whole := slices.Contains(flags, "-g")
			for _, line := range lines {
				f := strings.Fields(line)
				switch {
				case len(f) > 3 && strings.HasSuffix(f[3], ":"):
					var err error
					if ns, err = strconv.ParseFloat(f[2], 64); err != nil {
						t.Fatalf("%q: %v", line, err)
					}
					if tid = f[1]; f[3] != "offcpu-time:" {
						ran[tid] += ns
						tid = ""
						continue
					}
					samples[tid]++
					if !whole {
						got[tid] += ns
					}
				case len(f) == 2 && f[1] == waitsIn[own[tid].name]:
					got[tid] += ns
				}
			}
			for tid, w := range own {
				if w.name == "disk" && inMemory(t.TempDir()) {
					continue
				}
				// By the thread's clock, it waits while the stack of a wait is walked, and while it is preempted
				// elsewhere.
				least := 0.97*w.waits - w.n*25e3
				if whole {
					least -= w.ready
				}
				if patience(1) > 1 { // reading the clock takes long
					least *= 0.7
				}
				// The thread's CPU time sets no upper limit: the scheduler counts the time from a wake-up to the switch
				// as CPU time of the woken thread, however long the CPU takes to leave its idle state.
				if got[tid] == 0 || got[tid] < least || whole && got[tid] > w.inside {
					t.Errorf("waits of %.1f ms; in ns, by its own clock: %+v\n%s", got[tid]/1e6, w, waitsOf(lines, tid))
				}
				// The thread runs or waits all the time that it does not wait for a CPU elsewhere.
				wall, sum := w.waits+w.cpu, got[tid]+ran[tid]
				if len(ran) > 0 && patience(1) == 1 && w.name != "disk" &&
					(sum < 0.94*wall-w.ready || sum > 1.06*wall) {
					t.Errorf("waits and samples of %.1f ms; in ns, by its own clock: %+v", sum/1e6, w)
				}
				n := samples[tid]
				if w.name == "short" && (name == "single" && n < 20 || name == "no stacks" && n > 50) {
					t.Errorf("%s: %d samples", w.name, n)
				}
			}
			if (len(ran) > 0) != (name == "with samples") {
				t.Errorf("samples of another event: %v", ran)
			}
			// The kernel may take the memory of a stack away for a moment, where it looks for pages that are not used
			// (DAMON): of up to 2 of 400 stacks. An emulated machine may not build the tables in time, nor room for the
			// copies of stacks.
			complete, cut := numberIn(stderr, `(\d+) complete`), numberIn(stderr, `(\d+) incomplete`)
			gone := numberIn(stderr, `(\d+) of .*: stack memory could not be read`)
			lost := numberIn(stderr, `(\d+) were lost`)
			if cut-gone > complete*patience(1)/200 || gone > complete*patience(1)/50 ||
				lost > len(lines)/1000*(patience(1)-1) {
				t.Errorf("stderr:\n%s", stderr)
			}
		})
	}
}

var startedProgram = programs.C("../../testdata/programs/started.c", "-O2", "-pthread")

// TestScenarioOffCPUStarted: a thread that waits for a CPU before its first function runs has a whole stack, of the
// system call that made it. Programs that want the CPUs make threads wait there.
func TestScenarioOffCPUStarted(t *testing.T) {
	needOffCPU(t)
	for range 4 {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			hog.Process.Kill()
			hog.Wait()
		}()
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	r := mustRecord(t, "", "--off-cpu", "--off-cpu-thresh", "0", "-g", "-o", file, "--", startedProgram.Path(t))
	if n := numberIn(r.stderr, `(\d+) of .*: the return address is 0`); n > 0 {
		t.Errorf("%s", r.stderr)
	}
	out, _ := gperf(t, "script", "-i", file, "-F", "event,ip,sym", "--no-inline")
	begins := regexp.MustCompile(`(?m)^offcpu-time: *\n(?:\s+ffff.*\n)*\s+[0-9a-f]+ \S*clone\S*\n\n`)
	if len(begins.FindAllString(out, -1)) == 0 {
		t.Log("no thread waited in clone: the test shows nothing")
	}
}

var contendProgram = programs.C("../../testdata/programs/contend.c", "-O2", "-pthread")

// TestScenarioRunQueue: threads wait for a CPU as long as by the scheduler's own count, as single samples and as sums.
func TestScenarioRunQueue(t *testing.T) {
	needOffCPU(t)
	for _, flags := range [][]string{{"-g", "--off-cpu-thresh", "0"}, {"--waker"}, {"--off-cpu-thresh", "100000"}} {
		dir := t.TempDir()
		r := mustRecord(t, dir, slices.Concat([]string{"--off-cpu"}, flags, []string{"--", contendProgram.Path(t),
			"2000"})...)
		out, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--kind", "runqueue", "--sort", "tid",
			"--show-total-period", "-t", ";", "-g", "none", "--no-children")
		got := map[string]float64{}
		for _, m := range regexp.MustCompile(`(?m)^[^;]*; *(\d+) *; *(\d+):`).FindAllStringSubmatch(out, -1) {
			got[m[2]], _ = strconv.ParseFloat(m[1], 64)
		}
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		if len(lines) != 4 {
			t.Fatalf("the program prints %q", r.stdout)
		}
		for i, line := range lines {
			tid, delay, _ := strings.Cut(line, " ")
			want, err := strconv.ParseFloat(delay, 64)
			if err != nil {
				t.Fatal(err)
			}
			least, most := 0.98*want, 1.02*want
			if i == 3 { // the scheduler does not count the switch itself, some us, of this thread's short delays
				most = 2 * want
			}
			if patience(1) > 1 { // walking the stack, which counts as running, takes long
				least = 0.5 * want
			}
			if got[tid] < least || got[tid] > most {
				t.Errorf("%v: thread %s, number %d, waited %.1f ms for a CPU; the scheduler says %.1f\n%s", flags, tid,
					i, got[tid]/1e6, want/1e6, out)
			}
		}
	}
	t.Run("who had the CPU", func(t *testing.T) {
		dir := t.TempDir()
		hog := exec.Command("taskset", "-c", "0", "sh", "-c", "while :; do :; done")
		if err := hog.Start(); err != nil {
			t.Skip(err)
		}
		defer hog.Wait()
		defer hog.Process.Kill()
		mustRecord(t, dir, "-a", "--off-cpu", "--waker", "-g", "--", contendProgram.Path(t), "1000")
		folded, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--kind", "runqueue", "--format",
			"folded")
		if !regexp.MustCompile(`(?m)^contend;.*;after sh;.* \d+$`).MatchString(folded) {
			t.Errorf("contend waits for a CPU that sh has:\n%.4000s", folded)
		}
	})
}

// Threads that sleep from before the recording until its end: each is a sample with the thread's stack and the
// recording's time.
func TestScenarioOffCPUSlept(t *testing.T) {
	needOffCPU(t)
	for _, c := range []struct {
		name  string
		flags []string
		user  bool // whole user stacks: the C library keeps no frame pointers
	}{{"tables", []string{"-g"}, true}, {"pointers", []string{"--call-graph", "fp"}, false}, {"no stacks", nil, false}} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(blockedProgram.Path(t))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			threads := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "task")
			for range 100 {
				if l, _ := os.ReadDir(threads); len(l) == 3 {
					break
				}
				time.Sleep(patience(20 * time.Millisecond))
			}
			time.Sleep(patience(300 * time.Millisecond)) // all sleep
			dir := t.TempDir()
			r := mustRecord(t, dir, append(c.flags, "--off-cpu", "-p", strconv.Itoa(cmd.Process.Pid), "--",
				"sleep", "0.5")...)
			if !strings.Contains(r.stderr, "until its end: 3. Each is a sample") {
				t.Error(r.stderr)
			}
			out := mustGperf(t, "script", "-F", "comm,tid,period,event,ip,sym", "-i", filepath.Join(dir, "perf.data"))
			periods := regexp.MustCompile(`(?m)^\s*\S+\s+\d+\s+(\d+) offcpu`).FindAllStringSubmatch(out, -1)
			if len(periods) != 3 {
				t.Fatalf("%d samples:\n%s", len(periods), out)
			}
			for _, function := range []string{"first_waits", "second_waits", "main"} {
				if c.user && strings.Count(out, " "+function+"\n") != 1 {
					t.Errorf("%s is not in one stack:\n%s", function, out)
				}
			}
			if c.flags != nil && !strings.Contains(out, "futex_wait") {
				t.Errorf("no frames of the kernel:\n%s", out)
			}
			for _, m := range periods {
				if ns, _ := strconv.Atoi(m[1]); ns < 5e8 || time.Duration(ns) > patience(5*time.Second) {
					t.Errorf("a thread slept %d ns of half a second", ns)
				}
			}
		})
	}
}

// blockedProgram starts two threads that wait for ever, and a main thread that waits for them.
var blockedProgram = programs.C("testdata/blocked.c", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread")

var kindsProgram = programs.C("../../testdata/programs/kinds.c", "-O2")

// Processes have the name of the kind of their waits.
func TestScenarioWaitKinds(t *testing.T) {
	needOffCPU(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "--off-cpu", "-g", "-o", file, "--", kindsProgram.Path(t))
	folded, _ := gperf(t, "report", "-i", file, "--format", "folded", "--by", "kind")
	sums := map[string]map[string]float64{} // ns by command and kind
	for line := range strings.Lines(folded) {
		m := regexp.MustCompile(`^kind=([^;]*);([^;]*);.* (\d+)$`).FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("%q", line)
		}
		ns, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		if sums[m[2]] == nil {
			sums[m[2]] = map[string]float64{}
		}
		sums[m[2]][m[1]] += ns
	}
	for _, kind := range []string{"lock", "pipe", "network", "poll", "timer", "child", "stopped"} {
		sum := 0.0
		for of, ns := range sums[kind] {
			if of != "runqueue" { // which other tests cause
				sum += ns
			}
		}
		const most = 0.97 // else the process waits for its start, and for memory
		if part := sums[kind][kind]; part < most*sum || sum < 0.2e9 {
			t.Errorf("%s: %.0f ms of %.0f ms: %v", kind, part/1e6, sum/1e6, sums[kind])
		}
	}
}
