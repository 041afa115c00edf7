package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gperf/internal/testutil/inputs"
)

var (
	mutationCount = flag.Uint64("mutations", 4_000, "how many mutated files TestHostileMutations reads")
	cutCount      = flag.Int("cuts", 20, "how many times TestHostileFiles cuts a file short")
	mutationSeed  = flag.Uint64("mutation-seed", 0x9e3779b97f4a7c15, "the seed of these mutations")
)

// Limits for reading any file.
const (
	hostileTime   = 5 * time.Second // on an idle machine: not as time of a CPU either
	hostileMemory = 512 << 20
	// A worker that says nothing hangs after this much time of a CPU, or when none of its threads wanted a CPU
	// for as long. One that waits for a CPU does not: the machine is busy.
	hostileHang = 15 * time.Second
	// Above this much data the kernel refuses more: the process then dies
	// before the machine suffers. Go takes memory in arenas of 64 MiB.
	hostileMemoryLimit = 1 << 30
	// Text may be this many times as long as the contents of the file: 8 bytes of a
	// callchain can be a line with the name of a file, none of which is longer
	// than PATH_MAX.
	hostileTextRatio = (4096 + 64) / 8
	hostileTextMin   = 1 << 20
	// How many inputs a process reads before another one takes over.
	hostileChunk = 2000
)

// hostileCommands are the command lines that hostile files are given to; with
// a < at the end through a pipe, with a / as the files of a directory.
var hostileCommands = []string{
	"script",
	"script <",
	"script /",
	"script --strict",
	"script -F +brstack",
	"script --header -I",
	"script --format folded --inline --by-event",
	"report --format pprof",
	"report --format flamegraph",
	"report --format firefox",
	"report --format perfetto",
	"report --format parquet --rows samples",
	"report --stdio",
	"script -D",
	"report --stats --stdio",
	"annotate -g",
	"evlist -v",
	"buildid-list",
}

// hostileCase is one file for one command.
type hostileCase struct {
	name    string
	command string
	data    []byte
	size    int // of data or tree, which may be compressed
	// run is not gperf's in the harness's own test.
	run  func(args []string, stdout, stderr io.Writer) int
	tree map[string][]byte // the files below path, among them perf.data; nil: data is the only file
}

// args are the command line's words for the file at path.
func (c *hostileCase) args(path string) []string {
	words := strings.Fields(strings.TrimRight(c.command, " </"))
	if strings.HasSuffix(c.command, "<") {
		path = "-"
	}
	args := append(words, "-i", path)
	if c.tree != nil {
		args = append(words, "-i", filepath.Join(path, "perf.data"), "--symfs", path+",flat")
	}
	if strings.HasPrefix(c.command, "script") || strings.HasPrefix(c.command, "report") ||
		strings.HasPrefix(c.command, "annotate") {
		args = append(args, "--kallsyms", filepath.Join(root, "testdata", "kallsyms"))
	}
	return args
}

// write puts the file at path, or feeds it to stdin, and returns a function that undoes it.
func (c *hostileCase) write(path string) (undo func(), err error) {
	switch {
	case c.tree != nil:
		return func() { os.RemoveAll(path) }, writeTree(path, c.tree)
	case strings.HasSuffix(c.command, "<"):
		return c.feed()
	case strings.HasSuffix(c.command, "/"):
		if err := os.Mkdir(path, 0o755); err != nil {
			return nil, err
		}
		records := c.data[min(len(c.data), newSpecimen("", c.data).firstRecord()):]
		return func() { os.RemoveAll(path) }, errors.Join(
			os.WriteFile(filepath.Join(path, "data"), c.data, 0o644),
			os.WriteFile(filepath.Join(path, "data.0"), records, 0o644),
			os.WriteFile(filepath.Join(path, "data.1"), c.data[min(len(c.data), 104):], 0o644))
	}
	return func() { os.Remove(path) }, os.WriteFile(path, c.data, 0o644)
}

// writeTree writes files to a new directory.
func writeTree(dir string, files map[string][]byte) error {
	err := os.Mkdir(dir, 0o755)
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	return err
}

func (c *hostileCase) feed() (undo func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdin := os.Stdin
	os.Stdin = r
	go func() {
		w.Write(c.data) // gperf need not read all
		w.Close()
	}()
	return func() {
		os.Stdin = stdin
		r.Close()
	}, nil
}

// hostileSet is a list of cases that both the test and its workers can make.
type hostileSet struct {
	name  string
	count int
	at    func(i int) hostileCase
	least int // how many cases a process reads at least, if its start is dear
}

// fuzzed is the prefix of corpus files that are malformed on purpose.
const fuzzed = "fuzz."

// malformedSet are the files that are malformed on purpose, and truncations of
// all others, of some as twins of the other byte order.
func malformedSet(t *testing.T) hostileSet {
	type place struct {
		s   *specimen
		cut int
	}
	var places []place
	for _, s := range hostileSpecimens(t) {
		if strings.HasPrefix(s.name, fuzzed) {
			places = append(places, place{s, len(s.data)})
			continue
		}
		for _, cut := range s.cuts(*cutCount) {
			places = append(places, place{s, cut})
		}
	}
	n := len(hostileCommands)
	var whole []hostileCase
	var cut []place
	for _, p := range places {
		if p.cut < len(p.s.data) {
			cut = append(cut, p)
			continue
		}
		for _, command := range hostileCommands {
			whole = append(whole, hostileCase{p.s.name, command, p.s.data, len(p.s.data), run, nil})
		}
	}
	// Every second truncation is given to script, the others to the rest.
	return hostileSet{name: "malformed", count: len(whole) + len(cut), at: func(i int) hostileCase {
		if i < len(whole) {
			return whole[i]
		}
		i -= len(whole)
		p, command := cut[i], hostileCommands[0]
		if i%2 == 1 {
			command = hostileCommands[1+i/2%(n-1)]
		}
		name := fmt.Sprintf("%s truncated at %d", p.s.name, p.cut)
		return hostileCase{name, command, p.s.data[:p.cut], p.cut, run, nil}
	}}
}

// mutationSet are random mutations.
func mutationSet(t *testing.T) hostileSet {
	specimens := hostileSpecimens(t)
	return hostileSet{name: "mutations", count: int(*mutationCount), at: func(i int) hostileCase {
		name, data := mutate(specimens, *mutationSeed, uint64(i))
		command := hostileCommands[0]
		if i%2 == 1 {
			command = hostileCommands[1+i/2%(len(hostileCommands)-1)]
		}
		name = fmt.Sprintf("mutation %d of %s (-mutation-seed %d)", i, name, *mutationSeed)
		return hostileCase{name, command, data, len(data), run, nil}
	}}
}

// misbehaved lists the faults that the harness must notice, by the message.
var misbehaved = []struct {
	says string
	run  func(args []string, stdout, stderr io.Writer) int
}{
	{"", func([]string, io.Writer, io.Writer) int { return exitOK }},
	{"panic: of another goroutine", func([]string, io.Writer, io.Writer) int {
		go func() { panic("of another goroutine") }()
		select {}
	}},
	{"", func([]string, io.Writer, io.Writer) int { return exitOK }},
	{"MiB of memory", func([]string, io.Writer, io.Writer) int {
		ballast = bytes.Repeat([]byte{1}, hostileMemory+1<<20)
		return exitOK
	}},
	{"out of memory", func([]string, io.Writer, io.Writer) int {
		ballast = make([]byte, 16<<30)
		return exitOK
	}},
	{"more than 1048576 bytes of text from a file of 0", func(_ []string, stdout, _ io.Writer) int {
		for range 1 + hostileTextMin>>10 {
			stdout.Write(make([]byte, 1<<10))
		}
		return exitOK
	}},
	{"it failed without a word", func([]string, io.Writer, io.Writer) int { return exitError }},
	{"exit code 2", func([]string, io.Writer, io.Writer) int { return exitUsage }},
	{"not done after", func([]string, io.Writer, io.Writer) int {
		for {
			time.Sleep(time.Hour) // not select {}: Go's runtime may find that nothing can run, and end the process
		}
	}},
	{"", func([]string, io.Writer, io.Writer) int { return exitOK }},
}

var ballast []byte

func misbehavedSet(*testing.T) hostileSet {
	return hostileSet{name: "misbehaved", count: len(misbehaved), at: func(i int) hostileCase {
		return hostileCase{name: fmt.Sprint("case ", i), run: misbehaved[i].run}
	}}
}

var hostileSets = map[string]func(*testing.T) hostileSet{
	"malformed":  malformedSet,
	"mutations":  mutationSet,
	"crafted":    craftedSet,
	"joint":      jointSet,
	"misbehaved": misbehavedSet,
}

// hostileSpecimens are all recordings at hand, and twins of gperf's own in the
// other byte order.
func hostileSpecimens(t *testing.T) (l []*specimen) {
	t.Helper()
	paths := ownFiles(t)
	for _, path := range paths {
		s := readSpecimen(t, path)
		if twin, err := inputs.SwapBytes(s.data); err == nil { // compressed data contains none
			l = append(l, newSpecimen("twin of "+s.name, twin))
		}
	}
	if _, err := os.Stat(foreignDir); err == nil {
		paths = append(paths, foreignFiles(t)...)
	} else {
		t.Logf("no recordings by others in %s: hostile inputs are made of gperf's own", foreignDir)
	}
	for _, path := range paths {
		l = append(l, readSpecimen(t, path))
	}
	return l
}

// TestHostileFiles: files that are malformed on purpose, and files cut short,
// yield an error or samples.
func TestHostileFiles(t *testing.T) {
	set := malformedSet(t)
	set.run(t, saver(t, set))
}

// TestHostileMutations: so do files with random mutations.
func TestHostileMutations(t *testing.T) {
	set := mutationSet(t)
	set.run(t, saver(t, set))
}

// TestHostileCrafted: so do files made to be dear.
func TestHostileCrafted(t *testing.T) {
	set := craftedSet(t)
	set.run(t, saver(t, set))
}

// TestHostileHarness: faults are noticed, and attributed to the right case.
func TestHostileHarness(t *testing.T) {
	said := make([]string, len(misbehaved))
	misbehavedSet(t).run(t, func(i int, what string) { said[i] += what })
	for i, c := range misbehaved {
		if !strings.Contains(said[i], c.says) || c.says == "" && said[i] != "" {
			t.Errorf("case %d: the harness says %q, not %q", i, said[i], c.says)
		}
	}
}

// run gives the cases to workers: processes that read one after another, so
// that a panic, a hang or too much memory is attributed to one case.
func (set hostileSet) run(t *testing.T, bad func(i int, what string)) {
	start := time.Now()
	h := &hostileRun{t: t, set: set, dir: t.TempDir(), bad: bad}
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for {
				from, to := h.take()
				if from == to {
					return
				}
				h.chunk(from, to)
			}
		})
	}
	wg.Wait()
	t.Logf("%d hostile inputs in %v", set.count, time.Since(start).Round(time.Second))
}

// hostileRun is one test.
type hostileRun struct {
	t   *testing.T
	set hostileSet
	dir string
	bad func(i int, what string) // called by one at a time

	mu   sync.Mutex
	next int
	bads int
}

// take returns the cases that a worker is to read next; none when all are, or
// enough went wrong.
func (h *hostileRun) take() (from, to int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const enough = 20
	if h.bads >= enough {
		return h.next, h.next
	}
	from = h.next
	// A few dear cases are worth a process each.
	size := max(1, h.set.least, min(hostileChunk, h.set.count/(16*runtime.NumCPU())))
	h.next = min(h.next+size, h.set.count)
	return from, h.next
}

// chunk has the cases from to to-1 read, by several workers if some do not live
// long.
func (h *hostileRun) chunk(from, to int) {
	for from < to {
		w, err := h.start(from, to)
		if err != nil {
			h.t.Error(err)
			return
		}
		last, err := w.watch(h.fail)
		if last < from && err == nil {
			err = errors.New("the worker did nothing")
		}
		switch {
		case err == nil:
			from = last + 1
		case last > from && !strings.Contains(err.Error(), "panic: "):
			// Memory that earlier cases left: whether it is this case's fault
			// shows when it comes first.
			from = last
		default:
			h.fail(max(last, from), err.Error())
			from = max(last, from) + 1
		}
	}
}

// fail notes that case i went wrong.
func (h *hostileRun) fail(i int, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bads++
	h.bad(i, what)
}

// saver returns a function that saves a case that went wrong, and fails.
func saver(t *testing.T, set hostileSet) func(i int, what string) {
	return func(i int, what string) {
		c := set.at(i)
		dir := filepath.Join(os.TempDir(), "gperf-hostile")
		path := filepath.Join(dir, fmt.Sprintf("%s-%d", set.name, i))
		t.Errorf("%s, saved as %s: gperf %s: %s", c.name, path, c.command, what)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Error(err)
		} else if err := os.RemoveAll(path); err != nil { // of another run
			t.Error(err)
		} else if c.tree != nil {
			if err := writeTree(path, c.tree); err != nil {
				t.Error(err)
			}
		} else if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// worker is a process that reads cases.
type worker struct {
	cmd    *exec.Cmd
	lines  *os.File
	output bytes.Buffer
}

const workerEnv = "GPERF_HOSTILE_WORKER"

func (h *hostileRun) start(from, to int) (*worker, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p := &worker{lines: r}
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestHostileWorker$",
		fmt.Sprintf("-mutations=%d", *mutationCount), fmt.Sprintf("-mutation-seed=%d", *mutationSeed),
		fmt.Sprintf("-cuts=%d", *cutCount))
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %s", workerEnv, h.set.name, from, to, h.dir),
		"HOME="+h.dir, "TMPDIR="+h.dir, "DEBUGINFOD_URLS=", "GOTRACEBACK=all")
	p.cmd.ExtraFiles = []*os.File{w}
	p.cmd.Stdout = &p.output // of package testing
	p.cmd.Stderr = &p.output
	return p, p.cmd.Start()
}

// watch follows the output of the worker: the number of each case before it, and
// after it the fault in the outcome. It returns the last case's number,
// and the cause of the worker's end unless it finished.
func (p *worker) watch(bad func(i int, what string)) (last int, err error) {
	hung := make(chan struct{})
	w := &hangWatch{pid: p.cmd.Process.Pid}
	w.timer = time.AfterFunc(hostileHang/3, func() {
		if w.hangs() {
			close(hung)
			p.cmd.Process.Signal(syscall.SIGQUIT)
		}
	})
	last = -1
	lines := bufio.NewScanner(p.lines)
	for lines.Scan() {
		w.reset()
		var i int
		word, rest, _ := strings.Cut(lines.Text(), " ")
		number, what, _ := strings.Cut(rest, " ")
		fmt.Sscan(number, &i)
		if last = i; word == "bad" {
			bad(i, what)
		}
	}
	w.timer.Stop()
	err = p.cmd.Wait()
	p.lines.Close()
	select {
	case <-hung:
		return last, fmt.Errorf("not done after %v\n%s", hostileHang, p.excerpt())
	default:
	}
	if err != nil {
		return last, fmt.Errorf("%w\n%s", err, p.excerpt())
	}
	return last, nil
}

// hangWatch distinguishes a worker that hangs from one that waits for a CPU.
type hangWatch struct {
	pid   int
	timer *time.Timer

	mu     sync.Mutex
	silent bool          // start and last are known: the worker printed nothing for a while
	start  time.Duration // the worker's CPU time when it was first found silent
	last   time.Duration // the CPU time when it last ran or wanted to
	idle   time.Duration // how long none of the threads did
}

// reset is called when the worker says something.
func (w *hangWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent, w.idle = false, 0
	w.timer.Reset(hostileHang / 3)
}

// hangs is called when the worker printed nothing for a third of hostileHang, and arranges to be called again if it
// does not hang.
func (w *hangWatch) hangs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	cpu, wantsCPU := cpuOf(w.pid)
	switch {
	case !w.silent:
		w.silent, w.start, w.last = true, cpu, cpu
	case wantsCPU || cpu > w.last:
		w.last, w.idle = cpu, 0
	default:
		w.idle += hostileHang / 3
	}
	if cpu-w.start > hostileHang || w.idle >= hostileHang {
		return true
	}
	w.timer.Reset(hostileHang / 3)
	return false
}

// cpuOf returns a process's CPU time, and whether a thread of the process runs, wants to, or waits for a disk.
func cpuOf(pid int) (cpu time.Duration, wantsCPU bool) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		// After the name, which may contain anything: proc(5)'s fields 3 (state), 14 and 15 (time, in hundredths).
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 13 {
			continue // it ended
		}
		wantsCPU = wantsCPU || fields[0] == "R" || fields[0] == "D"
		for _, f := range fields[11:13] {
			n, _ := strconv.Atoi(f)
			cpu += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return cpu, wantsCPU
}

// excerpt is the beginning of the worker's last output.
func (p *worker) excerpt() []byte {
	const enough = 4 << 10
	return p.output.Bytes()[:min(p.output.Len(), enough)]
}

// TestHostileWorker is not a test but the process that reads hostile files.
func TestHostileWorker(t *testing.T) {
	task := os.Getenv(workerEnv)
	if task == "" {
		t.Skip("only the other Hostile tests start it")
	}
	var name, dir string
	var from, to int
	if _, err := fmt.Sscan(task, &name, &from, &to, &dir); err != nil {
		t.Fatal(err)
	}
	set := hostileSets[name](t)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: hostileMemoryLimit,
		Max: hostileMemoryLimit}); err != nil {
		t.Fatal(err)
	}
	lines := os.NewFile(3, "lines")
	for i := from; i < to; i++ {
		c := set.at(i)
		path := filepath.Join(dir, fmt.Sprint(i))
		os.RemoveAll(path) // of a worker that died
		undo, err := c.write(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(lines, "start %d\n", i)
		start, before := time.Now(), spent()
		err = c.read(path)
		undo()
		elapsed, after := time.Since(start), spent()
		if after.memory > hostileMemory {
			t.Fatalf("it took %d MiB of memory", after.memory>>20)
		}
		if cpu := after.cpu - before.cpu; min(elapsed, cpu) > hostileTime {
			err = fmt.Errorf("it took %v, %v of CPU time", elapsed, cpu)
		}
		if err != nil {
			fmt.Fprintf(lines, "bad %d %s\n", i, strings.ReplaceAll(err.Error(), "\n", "\\n"))
		}
	}
}

// used is the time and memory that a process needed so far.
type used struct {
	cpu    time.Duration
	memory int64 // at most, in bytes
}

func spent() used {
	return used{inputs.CPU(), peakMemory()}
}

// peakMemory is VmHWM. The rusage contains the peak of the process that started this one
// if that was more.
func peakMemory() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		panic("no VmHWM in /proc/self/status") // in a test: the limit would hold nothing
	}
	return n << 10
}

// read runs the command and judges the outcome.
func (c *hostileCase) read(path string) error {
	limit := hostileTextMin + hostileTextRatio*c.size
	stdout, stderr := &boundedWriter{left: limit}, &boundedWriter{left: hostileTextMin}
	code := c.run(c.args(path), stdout, stderr)
	text := stderr.kept.String()
	switch {
	case stdout.over:
		return fmt.Errorf("more than %d bytes of text from a file of %d", limit, c.size)
	case stderr.over:
		return fmt.Errorf("more than %d bytes of errors", hostileTextMin)
	case code != exitOK && code != exitError:
		return fmt.Errorf("exit code %d: %s", code, text)
	case code == exitError && text == "":
		return errors.New("it failed without a word")
	case strings.Contains(text, "runtime error") || strings.Contains(text, "goroutine "):
		return fmt.Errorf("it panicked: %s", text)
	}
	return nil
}

// boundedWriter takes as much as is left and keeps the beginning.
type boundedWriter struct {
	left int
	over bool
	kept bytes.Buffer
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.over = w.over || len(p) > w.left; w.over {
		return 0, io.ErrShortWrite
	}
	w.left -= len(p)
	const enough = 4 << 10
	w.kept.Write(p[:min(len(p), max(0, enough-w.kept.Len()))])
	return len(p), nil
}
