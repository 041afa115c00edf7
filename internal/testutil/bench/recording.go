package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return
	}
	if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 12 {
		const tick = time.Second / 100 // USER_HZ
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		r.user, r.system = time.Duration(user)*tick, time.Duration(system)*tick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	if kb := field(status, "VmHWM:"); kb > 0 {
		r.maxRSS = int64(kb) << 10
	}
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
	const typeLost, typeSample, typeLostSamples = 2, 9, 13
	st, err := os.Stat(r.file)
	if err != nil {
		return err
	}
	r.bytes = st.Size()
	var byRing, byEvents uint64
	err = eachRecord(r.file, func(typ uint32, body []byte) error {
		switch typ {
		case typeSample:
			r.samples++
		case typeLost, typeLostSamples:
			if len(body) < 16 {
				return fmt.Errorf("a record of losses of %d bytes", len(body))
			}
			if typ == typeLost {
				byRing += binary.NativeEndian.Uint64(body[8:]) // after the id
			} else {
				byEvents += binary.NativeEndian.Uint64(body)
			}
		}
		return nil
	})
	r.lost = cmp.Or(byEvents, byRing)
	return err
}

// eachRecord passes the records of a file to each. The body is valid until it returns.
func eachRecord(file string, each func(typ uint32, body []byte) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var header [56]byte // magic, size, attr size, then offset and size of attrs and of data
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return err
	}
	off, size := binary.NativeEndian.Uint64(header[40:]), binary.NativeEndian.Uint64(header[48:])
	data := bufio.NewReaderSize(io.NewSectionReader(f, int64(off), int64(size)), 1<<20)
	body := make([]byte, 1<<16)
	for {
		var head [8]byte
		if _, err := io.ReadFull(data, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := int(binary.NativeEndian.Uint16(head[6:])) - len(head)
		if n < 0 {
			return fmt.Errorf("a record of %d bytes", n+len(head))
		}
		if _, err := io.ReadFull(data, body[:n]); err != nil {
			return err
		}
		if err := each(binary.NativeEndian.Uint32(head[:]), body[:n]); err != nil {
			return err
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

func newTable(header string) *tabwriter.Writer {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	return w
}
