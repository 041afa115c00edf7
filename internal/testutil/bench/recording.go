package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gperf/format"
)

// A recording is the result and the usage of one run of a recorder. CPU and memory exclude the recorder's command.
type recording struct {
	by   grapher
	file string
	usage
	bpf     bpfTime
	bytes   int64 // of the file
	samples int
	lost    uint64
	ends    map[string]int // how the samples' user stacks ended
	ips     int            // of the user stacks

	start    time.Time
	messages string // of the recorder
	output   string // of the load
}

// bpfTime is the run time of a recorder's BPF programs.
type bpfTime struct {
	time time.Duration
	runs uint64
}

// noStack is the text of gperf script for a sample without a user stack.
const noStack = "no user stack"

// stacks returns the number of samples with a user stack.
func (r *recording) stacks() (n int) {
	for _, c := range r.ends {
		n += c
	}
	return n - r.ends[noStack]
}

// frames returns the average number of frames of a user stack.
func (r *recording) frames() float64 { return float64(r.ips) / float64(r.stacks()) }

// early lists why stacks did not reach the entry point, the most frequent cause first.
func (r *recording) early() string {
	var l []string
	for _, why := range slices.SortedFunc(maps.Keys(r.ends), func(a, b string) int { return r.ends[b] - r.ends[a] }) {
		if why != "end of stack" && why != noStack {
			l = append(l, fmt.Sprintf("%s %d", why, r.ends[why]))
		}
	}
	return strings.Join(l, ", ")
}

// recordAll records load by each and prints a line for each. For a recorder that fails, the line only says so. The
// files of the graphers in keep stay, and are returned.
func (b *bench) recordAll(title string, by []grapher, opts, load []string,
	keep func(grapher) bool) (kept []string, err error) {
	w := newTable(
		"recorder\tsamples\tlost\tbytes/sample\tuser stacks\twhole\twhole %\tframes, mean\trecorder's CPU s\tmax RSS " +
			"MB\twall s\tended early")
	var failed []error
	for _, g := range by {
		r, err := b.recordCommand(g, opts, load)
		if b.ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			fmt.Fprintf(w, "%s\tfailed\n", g)
			failed = append(failed, err)
			continue
		}
		r.print(w)
		if keep != nil && keep(g) {
			kept = append(kept, r.file)
		} else {
			os.Remove(r.file)
		}
	}
	fmt.Printf("\n%s, %s\n", title, loadAverage())
	for _, err := range failed {
		defer fmt.Println("failed:", err)
	}
	return kept, w.Flush()
}

func (r *recording) print(w io.Writer) {
	whole := r.ends["end of stack"]
	fmt.Fprintf(w, "%s\t%d\t%d\t%.0f\t%d\t%d\t%.2f\t%.1f\t%.2f\t%.1f\t%.2f\t%s\n", r.by, r.samples, r.lost,
		float64(r.bytes)/float64(r.samples),
		r.stacks(), whole, 100*float64(whole)/float64(r.stacks()), r.frames(), r.cpu().Seconds(),
		float64(r.maxRSS)/(1<<20), r.wall.Seconds(), r.early())
}

// recordCommand records load and finds how the user stacks ended.
func (b *bench) recordCommand(g grapher, opts, load []string) (*recording, error) {
	r, err := b.recordFile(g, opts, load)
	if err != nil {
		return nil, err
	}
	return r, b.unwound(r)
}

// recordFile records load from start to end, without any table cached before.
func (b *bench) recordFile(g grapher, opts, load []string) (*recording, error) {
	cache, err := os.MkdirTemp(b.dir, "cache-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	return b.recordWithCache(g, opts, load, cache)
}

// recordWithCache records load with a directory of cached tables.
func (b *bench) recordWithCache(g grapher, opts, load []string, cache string) (*recording, error) {
	b.recordings++
	r := &recording{by: g, file: filepath.Join(b.dir,
		fmt.Sprintf("%d-%s.data", b.recordings, strings.ReplaceAll(g.name, " ", "-")))}
	args := slices.Concat([]string{"record", "-N", "-o", r.file, "--call-graph", g.graph}, opts, []string{"--"}, load)
	var stdout bytes.Buffer
	cmd, stderr := b.command(g.tool, &stdout, args...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	r.start = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	err := r.watch(cmd.Process.Pid, ended)
	r.messages, r.output = stderr.String(), stdout.String()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(r.messages), "\n")
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, strings.Join(lines[max(0, len(lines)-3):], "\n"))
	}
	r.wall = time.Since(r.start)
	if err := r.count(); err != nil {
		return nil, fmt.Errorf("count the records of %s: %w", r.file, err)
	}
	return r, nil
}

// watch reads the recorder's CPU time from /proc until it exits. Wait's rusage is unusable: it includes the
// recorder's command. The CPU time after the last read is missing: up to 20 ms.
func (r *recording) watch(pid int, ended <-chan error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		}
		r.readUsage(pid)
		if i%5 == 0 {
			r.readBPF(pid)
		}
	}
}

func (r *recording) readUsage(pid int) {
	if user, system, err := cpuOf(pid); err == nil {
		r.user, r.system = user, system
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		r.maxRSS = max(r.maxRSS, int64(field(status, "VmHWM:"))<<10)
	}
}

// clockTick is the unit of CPU time in /proc/PID/stat (USER_HZ), which is the same on all machines.
const clockTick = 10 * time.Millisecond

// cpuOf returns the CPU times of a process, including ended threads.
func cpuOf(pid int) (user, system time.Duration, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	const utime, stime = 14 - 3, 15 - 3 // the fields that follow the name begin with the third
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= stime {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	ticks := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * clockTick
	}
	return ticks(utime), ticks(stime), nil
}

// readBPF adds up the recorder's programs, which the kernel describes among its open files.
func (r *recording) readBPF(pid int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	var sum bpfTime
	seen := map[uint64]bool{}
	for _, file := range files {
		info, err := os.ReadFile(file)
		if id := field(info, "prog_id:"); err == nil && id != 0 && !seen[id] {
			seen[id] = true
			sum.time += time.Duration(field(info, "run_time_ns:"))
			sum.runs += field(info, "run_cnt:")
		}
	}
	if sum.runs > r.bpf.runs {
		r.bpf = sum
	}
}

// field returns the number after a name at the start of a line.
func field(text []byte, name string) uint64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseUint(string(f[0]), 10, 64)
				return n
			}
		}
	}
	return 0
}

// count counts the file's samples and lost samples. It prefers the counts of the events, in LOST_SAMPLES records at
// the end: LOST records count the same losses, but not the last ones, and count a sample and the sample's stack
// from BPF as two.
func (r *recording) count() error {
	st, err := os.Stat(r.file)
	if err != nil {
		return err
	}
	r.bytes = st.Size()
	var byRing, byEvents uint64
	r.samples, err = eachRecord(r.file, func(rec format.Record) {
		switch rec := rec.(type) {
		case *format.Lost:
			byRing += rec.Lost
		case *format.LostSamples:
			byEvents += rec.Lost
		}
	})
	r.lost = cmp.Or(byEvents, byRing)
	return err
}

// eachRecord passes the records of a file except samples to each, and returns the number of samples. A record is valid
// until each returns.
func eachRecord(file string, each func(format.Record)) (samples int, err error) {
	fd, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer fd.Close()
	st, err := fd.Stat()
	if err != nil {
		return 0, err
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		return 0, err
	}
	for r := f.RecordsAsWritten(); ; {
		raw, err := r.Next()
		switch {
		case err == io.EOF:
			return samples, nil
		case err != nil:
			return samples, err
		case raw.Type == format.TypeSample:
			samples++
			continue
		}
		if rec, err := f.Record(raw); err == nil {
			each(rec)
		}
	}
}

// unwound uses gperf script to find how the user stacks of the file ended, for all recorders.
func (b *bench) unwound(r *recording) error {
	cmd, stderr := b.command(b.gperf, nil, "script", "-F", "ip", "--max-stack", "1024", "--show-unwind", "-i", r.file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r.ends = map[string]int{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if why, ok := strings.CutPrefix(line, "user stack: "); ok {
			r.ends[why]++
		} else if ip, err := strconv.ParseUint(line, 16, 64); err == nil && ip < 1<<63 {
			r.ips++
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	return lines.Err()
}

// median returns the median of a list, which it sorts.
func median[T time.Duration | float64](l []T) T {
	slices.Sort(l)
	return (l[(len(l)-1)/2] + l[len(l)/2]) / 2
}

// spread returns the minimum, the median and the maximum in seconds, in three columns.
func spread(l []time.Duration, digits int) string {
	m := median(l).Seconds()
	return fmt.Sprintf("%.*f\t%.*f\t%.*f", digits, l[0].Seconds(), digits, m, digits, l[len(l)-1].Seconds())
}

func newTable(header string) *tabwriter.Writer {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	return w
}
