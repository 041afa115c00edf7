package main

import (
	"cmp"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gperf/internal/testutil/programs"
)

var slowProgram = programs.C("../../testdata/programs/slow.c", "-O2")

// TestScenarioWhy: the tenth of the requests that takes longest sleeps; the parts of these and of the others sum up.
func TestScenarioWhy(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+slowProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", slowProgram.Path(t), "40", "300")
	out, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--why=90")
	row := regexp.MustCompile(`(?m)^ *([0-9.]+ [nmu]?s) +([0-9.]+ [nmu]?s) +(-?[0-9.]+ [nmu]?s)  (.*)$`)
	var all, sum [2]float64
	flush := false
	for _, m := range row.FindAllStringSubmatch(out, -1) {
		for i := range sum {
			d, err := time.ParseDuration(strings.ReplaceAll(m[1+i], " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m[4] == "request":
				all[i] = d.Seconds()
			case m[4] == "timer: flush":
				flush = true
				if (d >= 300*time.Millisecond) != (i == 0) {
					t.Errorf("%s", m[0])
				}
				fallthrough
			default:
				sum[i] += d.Seconds()
			}
		}
	}
	if !flush || all[0] == 0 || math.Abs(sum[0]/all[0]-1) > 0.01 || math.Abs(sum[1]/all[1]-1) > 0.01 ||
		!strings.Contains(out, "request: 40 calls") || !strings.Contains(out, "        4        36 ") {
		t.Errorf("the parts sum up to %v of %v s:\n%s", sum, all, out)
	}
}

var chainProgram = programs.C("../../testdata/programs/chain.c", "-O2", "-pthread")

// TestScenarioWhyChain: requests wait for a lock, its holder for a thread, and this one sleeps.
func TestScenarioWhyChain(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+chainProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "--waker",
		"-g", "--", chainProgram.Path(t))
	for args, want := range map[string]string{
		"--slowest 20": `lock: take_lock, woken by holder in flush_cache
 .*  holder: pipe: ask, woken by source in source
 .*    source: timer: think
`,
		"--why=98": `  lock: take_lock, woken by holder in flush_cache
.*    holder: pipe: ask, woken by source in source
.*      source: timer: think
`} {
		out, _ := gperf(t, append(strings.Fields("report "+args), "-i", filepath.Join(dir, "perf.data"))...)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: want %s in\n%s", args, want, out)
		}
	}
}

// TestScenarioSlowest: every tenth request of slow.c sleeps for 30 ms: the parts of these say so, those of others do
// not, and all sum up to the whole.
func TestScenarioSlowest(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+slowProgram.Path(t)+":request", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", slowProgram.Path(t), "50")
	file := filepath.Join(dir, "perf.data")
	// A request that waits for a CPU can take more time than one that sleeps: the number tells what it did.
	sleeps := "arg1 == 3 || arg1 == 13 || arg1 == 23 || arg1 == 33 || arg1 == 43"
	for filter, want := range map[string]struct {
		slept bool
		all   string
	}{"event ~ span:* && (" + sleeps + ")": {true, "the 5 longest of 5 calls"},
		"event ~ span:* && !(" + sleeps + ")": {false, "the 5 longest of 45 calls"}} {
		out, _ := gperf(t, "report", "-i", file, "--slowest", "5", "--filter", filter)
		blocks := strings.Split(strings.TrimSpace(out), "\n\n")
		if len(blocks) != 6 || !strings.Contains(blocks[0], want.all) {
			t.Fatalf("--filter %q: want %s in\n%s", filter, want.all, out)
		}
		for _, block := range blocks[1:] {
			lines := strings.Split(block, "\n")
			if !strings.Contains(lines[0], " request  slow/") && !strings.Contains(lines[0], " request  ") {
				t.Errorf("%q is no request", lines[0])
			}
			sum, slept := 0.0, 0.0
			for _, line := range lines[1:] {
				w := strings.Fields(line) // 30.6 ms 80.8% timer: flush
				share, err := strconv.ParseFloat(strings.TrimSuffix(w[2], "%"), 64)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if sum += share; strings.HasSuffix(line, "timer: flush") {
					slept += share
				}
			}
			if sum < 99 || sum > 101 || (slept > 0) != want.slept {
				t.Errorf("--filter %q: parts of %.1f %%, %.1f %% sleep:\n%s", filter, sum, slept, block)
			}
		}
	}
}

// TestScenarioSlowestCauses: programs in languages with an interpreter print the cause of each request; --slowest names
// it, with the function of the program, and the parts sum up to the request.
func TestScenarioSlowestCauses(t *testing.T) {
	needOffCPU(t)
	wants := map[string]string{ // of the largest part, by cause
		"cause_cpu":        `^running: (\S+ in )?cause_cpu`,
		"cause_sleep":      `^(timer|lock): .* in cause_sleep`,
		"cause_lock":       `^lock: .* in cause_lock`,
		"cause_dependency": `^network: .* in cause_dependency`,
		"cause_fault":      `^running: cause_fault`,
		"cause_hash":       `^running: cause_hash`,
		"cause_neighbours": `^runqueue: .* in cause_neighbours, after `, // or after other tests
		"causeCPU":         `^running: Causes.causeCPU`,
		"causeSleep":       `^timer: java.lang.Thread.sleep in Causes.causeSleep`,
		"causeLock":        `^lock: java.util.concurrent.locks.ReentrantLock.lock in Causes.causeLock`,
		"causeMonitor":     `^lock: .* in Causes.causeMonitor`,
		"causeDependency":  `^(network|poll): .* in Causes.causeDependency`,
	}
	for _, c := range []struct{ program, pkg, source, span string }{
		{"/usr/bin/python3", "python3", "causes.py", "sys_enter_getppid..sys_enter_getuid"},
		{"node", "nodejs", "causes.js", "sys_enter_getppid..sys_enter_getuid"},
		{"java", "default-jdk", "Causes.java", "sys_enter_statfs..sys_enter_utimensat"},
	} {
		t.Run(c.pkg, func(t *testing.T) {
			dir, program := t.TempDir(), runtimesOf(t, c.program, c.pkg, "GPERF_CAUSES")[0]
			printed, source := filepath.Join(dir, "printed"), knownProgram(t, c.source)
			if class, is := strings.CutSuffix(c.source, ".java"); is {
				needPrograms(t, "javac")
				if out, err := exec.Command("javac", "--release", "8", "-d", dir, source).CombinedOutput(); err != nil {
					t.Fatalf("javac: %v\n%s", err, out)
				}
				source = "-cp " + dir + " " + class
			}
			mustRecord(t, dir, "-e", "span:syscalls:"+c.span, "--off-cpu", "--waker", "--off-cpu-thresh", "0", "-e",
				"cpu-clock/freq=999/", "-g", "--", "sh", "-c", "exec "+program+" "+source+" 120 >"+printed)
			text, err := os.ReadFile(printed)
			if err != nil {
				t.Fatal(err)
			}
			checkCauses(t, dir, strings.Fields(string(text)), wants)
		})
	}
}

// checkCauses checks what --slowest says of the last spans of a recording in a directory, whose causes are known. wants
// matches the largest part, by cause. It returns the spans.
func checkCauses(t *testing.T, dir string, causes []string, wants map[string]string) []slowCall {
	t.Helper()
	out, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--slowest", "10000")
	calls := slowCalls(t, out)
	if len(calls) < len(causes) || len(causes) < 100 {
		t.Fatalf("%d calls, %d causes:\n%s", len(calls), len(causes), out)
	}
	calls = calls[len(calls)-len(causes):] // Node makes such calls when it starts
	wrong := 0
	for i, call := range calls {
		if math.Abs(call.share-100) > 1 {
			t.Errorf("the parts of %s sum up to %.1f %%", call.start, call.share)
		}
		parts := call.parts
		if !strings.HasSuffix(strings.ToLower(causes[i]), "neighbours") { // other tests may run beside this one
			parts = slices.DeleteFunc(parts, func(p string) bool { return strings.HasPrefix(p, "runqueue: ") })
		}
		if len(parts) == 0 || !regexp.MustCompile(wants[causes[i]]).MatchString(parts[0]) {
			wrong++
			t.Logf("%s is %q", causes[i], call.parts)
		}
	}
	if wrong > len(causes)/100 {
		t.Errorf("%d of %d causes are wrong", wrong, len(causes))
	}
	return calls
}

var causesProgram = programs.C("testdata/causes.cc", "-O2", "-pthread")

// TestScenarioSlowestCausesCXX is TestScenarioSlowestCauses for a program of C++, which also waits for the disk, and
// for a packet that TCP sends again, because the receiver dropped it.
func TestScenarioSlowestCausesCXX(t *testing.T) {
	needOffCPU(t)
	needEvents(t)
	wants := map[string]string{
		"cause_cpu":        `^running: cause_cpu`,
		"cause_sleep":      `^timer: cause_sleep`,
		"cause_lock":       `^lock: cause_lock.*, woken by .* in flush_cache`,
		"cause_dependency": `^network: cause_dependency.*, woken by `,
		"cause_fault":      `^running: cause_fault`,
		"cause_disk":       `^disk: cause_disk|^running`, // running where the disk is memory, or stops an emulated CPU
		"cause_neighbours": `^runqueue: cause_neighbours.*, after `,
		"cause_retransmit": `^network: cause_retransmit.*, woken by `,
	}
	dir := t.TempDir()
	printed := filepath.Join(dir, "printed")
	mustRecord(t, dir, "-e", "span:syscalls:sys_enter_getppid..sys_enter_getuid", "--off-cpu", "--waker",
		"--off-cpu-thresh", "0", "-e", "skb:kfree_skb", "-e", "cpu-clock/freq=999/", "-g", "--", "sh", "-c",
		"exec "+causesProgram.Path(t)+" 120 "+dir+" >"+printed)
	text, err := os.ReadFile(printed)
	if err != nil {
		t.Fatal(err)
	}
	causes := strings.Fields(string(text))
	calls := checkCauses(t, dir, causes, wants)
	out, _ := gperf(t, "script", "-i", filepath.Join(dir, "perf.data"), "--filter", "event == skb:kfree_skb")
	if !strings.Contains(out, "SOCKET_FILTER") {
		t.Skip("this kernel does not say why packets are dropped")
	}
	for i, call := range calls {
		dropped := slices.ContainsFunc(call.meanwhile, func(s string) bool {
			return strings.HasPrefix(s, "kfree_skb SOCKET_FILTER")
		})
		if dropped != (causes[i] == "cause_retransmit") {
			t.Errorf("%s: meanwhile %q", causes[i], call.meanwhile)
		}
	}
	out, _ = gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--why=90")
	if !regexp.MustCompile(`(?m)^ +1\.00x +0\.0[0-9]x +\S+  meanwhile: kfree_skb SOCKET_FILTER$`).MatchString(out) {
		t.Errorf("the slowest are not those whose packets were dropped:\n%s", out)
	}
}

var causesGo = programs.Go("testdata/causes.go")

// TestScenarioSlowestCausesGo is TestScenarioSlowestCauses for a program of Go, whose goroutines share threads.
func TestScenarioSlowestCausesGo(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	wants := map[string]string{
		"causeCPU":        `^running: main\.causeCPU`,
		"causeSleep":      `^timer: time\.Sleep in main\.causeSleep`,
		"causeLock":       `^lock: sync\.\(\*Mutex\)\.Lock in main\.causeLock, woken by causes in main\.flush`,
		"causeChannel":    `^channel: main\.causeChannel, woken by causes in main\.work`,
		"causeDependency": `^network: net\.\(\*conn\)\.Read in main\.causeDependency`,
		"causeFault":      `^running: main\.causeFault`,
		"causeNeighbours": `^runqueue: main\.causeNeighbours`,
	}
	dir := t.TempDir()
	path, printed := causesGo.Path(t), filepath.Join(dir, "printed")
	mustRecord(t, dir, "-e", "span:"+path+":main.request", "--goroutines="+path, "--waker", "--off-cpu-thresh", "0",
		"-e", "cpu-clock/freq=999/", "-g", "--", "sh", "-c", "exec "+path+" 119 >"+printed)
	text, err := os.ReadFile(printed)
	if err != nil {
		t.Fatal(err)
	}
	checkCauses(t, dir, strings.Fields(string(text)), wants)
}

// slowCall is a call of --slowest.
type slowCall struct {
	start string
	parts []string // the largest first
	share float64
	// meanwhile is what happened to packets.
	meanwhile []string
}

// slowCalls returns the calls that --slowest wrote, in the order of time.
func slowCalls(t *testing.T, out string) (calls []slowCall) {
	t.Helper()
	part := regexp.MustCompile(`^ +[0-9.]+ [nmu]?s +([0-9.]+)%  (.*)$`)
	head := regexp.MustCompile(`^ *[0-9.]+ [nmu]?s  .* ([0-9]+\.[0-9]+)$`)
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if m := head.FindStringSubmatch(line); m != nil {
			calls = append(calls, slowCall{start: m[1]})
		} else if m := part.FindStringSubmatch(line); m != nil && len(calls) > 0 {
			c := &calls[len(calls)-1]
			share, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			c.share, c.parts = c.share+share, append(c.parts, m[2])
		} else if _, what, is := strings.Cut(line, "x  meanwhile: "); is && len(calls) > 0 {
			calls[len(calls)-1].meanwhile = append(calls[len(calls)-1].meanwhile, what)
		}
	}
	slices.SortFunc(calls, func(a, b slowCall) int {
		return cmp.Or(len(a.start)-len(b.start), strings.Compare(a.start, b.start))
	})
	return calls
}

var handlesProgram = programs.Go("testdata/handles.go")

// TestScenarioSlowestGoroutines: while a goroutine sleeps, its thread runs another one, which is not the call's.
func TestScenarioSlowestGoroutines(t *testing.T) {
	needOffCPU(t)
	needProbes(t, "uprobe")
	dir := t.TempDir()
	mustRecord(t, dir, "-e", "span:"+handlesProgram.Path(t)+":main.handle", "--off-cpu", "--off-cpu-thresh", "0", "-e",
		"cpu-clock/freq=999/", "-g", "--", handlesProgram.Path(t))
	out, _ := gperf(t, "report", "-i", filepath.Join(dir, "perf.data"), "--slowest", "20")
	if !strings.Contains(out, "# goroutines share threads") {
		t.Errorf("not said:\n%s", out)
	}
	calls := slowCalls(t, out)
	if len(calls) != 20 {
		t.Fatalf("%d calls:\n%s", len(calls), out)
	}
	for _, c := range calls {
		if len(c.parts) == 0 || c.parts[0] != "the goroutine waited, or ran on another thread" {
			t.Errorf("the parts of %s are %q", c.start, c.parts)
		}
	}
	if strings.Contains(out, "busy") {
		t.Errorf("another goroutine counts:\n%s", out)
	}
}
