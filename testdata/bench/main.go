// Bench times gperf and perf side by side, in turns, on the same recordings and the same load, and prints
// a table: wall-clock time, CPU time and peak memory of each command, and gperf's ratio to each perf. It judges
// nothing.
//
//	go run ./testdata/bench
//	PERF="perf,/opt/perf7/bin/perf" go run ./testdata/bench -n 9 -part read -f my.data
//
// PERF lists the perfs to compare with, by commas; each may be a command with arguments.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const event = "skb:kfree_skb"

type bench struct {
	runs    int
	drops   int // in the files that are made to be read
	rate    int // of drops per second while record is measured
	seconds int // for which record is measured
	files   []string
	dir     string // for what is made on the way
	dropper string
	gperf   tool
	perfs   []tool
}

// A tool is gperf or one of the perfs.
type tool struct {
	name string
	argv []string
}

func main() {
	var b bench
	flag.IntVar(&b.runs, "n", 5, "runs of each command")
	flag.IntVar(&b.drops, "drops", 300000, "drops in the files that are read")
	flag.IntVar(&b.rate, "rate", 100000, "drops per second while record is measured")
	flag.IntVar(&b.seconds, "seconds", 3, "seconds of each recording that is measured")
	files := flag.String("f", "", "perf.data files to read, by commas; default: one made by gperf, one by the first perf")
	gperf := flag.String("gperf", "", "gperf to measure; default: built from this checkout")
	part := flag.String("part", "all", "what to measure: read, record or all")
	flag.Parse()
	if flag.NArg() > 0 || b.runs < 1 || b.drops < 1 || b.rate < 1 || b.seconds < 1 || !slices.Contains([]string{"read", "record", "all"}, *part) {
		flag.Usage()
		os.Exit(2)
	}
	if *files != "" {
		b.files = strings.Split(*files, ",")
	}
	if err := b.run(*gperf, *part); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(gperf, part string) (err error) {
	if b.dir, err = os.MkdirTemp("", "gperf-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.findTools(gperf); err != nil {
		return err
	}
	if part != "record" {
		if err := b.read(); err != nil {
			return err
		}
	}
	if part != "read" {
		return b.record()
	}
	return nil
}

func (b *bench) findTools(gperf string) (err error) {
	if gperf == "" {
		if gperf, err = b.build("./cmd/gperf"); err != nil {
			return err
		}
	}
	b.gperf = tool{"gperf", []string{gperf}}
	if b.dropper, err = b.build("./testdata/drops"); err != nil {
		return err
	}
	for command := range strings.SplitSeq(cmp.Or(os.Getenv("PERF"), "perf"), ",") {
		p := tool{argv: strings.Fields(command)}
		out, err := exec.Command(p.argv[0], append(p.argv[1:], "--version")...).Output()
		if err != nil {
			return fmt.Errorf("ask %q for its version (Debian's package is linux-perf; PERF=… names another): %w", command, err)
		}
		p.name = strings.Replace(strings.TrimSpace(string(out)), "perf version", "perf", 1)
		b.perfs = append(b.perfs, p)
	}
	return nil
}

func (b *bench) build(pkg string) (string, error) {
	bin := filepath.Join(b.dir, filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

// read measures script and report on each file.
func (b *bench) read() error {
	if len(b.files) == 0 {
		for _, t := range []tool{b.gperf, b.perfs[0]} {
			file := filepath.Join(b.dir, "by-"+strings.Fields(t.name)[0]+".data")
			args := []string{"record", "-q", "-m", "16M", "-g", "-a", "-e", event, "-o", file, "--", b.dropper, "-n", strconv.Itoa(b.drops)}
			if _, err := b.time(t, args...); err != nil {
				return err
			}
			b.files = append(b.files, file)
		}
	}
	for _, file := range b.files {
		perfs, samples, err := b.readers(file)
		if err != nil {
			return err
		}
		var scripts, reports []*row
		for _, p := range perfs {
			scripts = append(scripts, &row{tool: p, args: []string{"script", "--no-inline", "-i", file}})
			reports = append(reports, &row{tool: p, args: []string{"report", "--stdio", "-i", file}})
		}
		rows := slices.Concat(scripts, []*row{
			{tool: b.gperf, args: []string{"script", "-i", file}, against: scripts},
			{tool: b.gperf, args: []string{"script", "--format", "folded", "-i", file}, against: scripts},
		}, reports, []*row{
			{tool: b.gperf, args: []string{"report", "--stdio", "-i", file}, against: reports},
		})
		for range b.runs {
			for _, r := range rows {
				u, err := b.time(r.tool, r.args...)
				if err != nil {
					return err
				}
				r.runs = append(r.runs, u)
			}
		}
		fmt.Printf("\nreading %s: %d samples, %d runs each in turns\n", filepath.Base(file), samples, b.runs)
		wall := func(u usage) time.Duration { return u.wall }
		printRows(rows, 0, "perf's wall / gperf's", func(r, against *row) float64 {
			return ratio(against.median(wall), r.median(wall))
		})
	}
	return nil
}

// record measures what a recorder costs: first for nothing but its start and end, then under load. The load
// runs beside the recorder, not as its command, so that each has its own account.
func (b *bench) record() error {
	for _, drops := range []int{0, b.rate * b.seconds} {
		rows := []*row{{tool: b.gperf}}
		for _, p := range b.perfs {
			r := &row{tool: p}
			rows = append(rows, r)
			rows[0].against = append(rows[0].against, r)
		}
		for range b.runs {
			for _, r := range rows {
				u, err := b.recordOnce(r.tool, drops)
				if err != nil {
					return err
				}
				r.runs = append(r.runs, u)
			}
		}
		if drops == 0 {
			fmt.Printf("\nrecord -g -a -e %s, nothing to record, %d runs each in turns\n", event, b.runs)
		} else {
			fmt.Printf("\nrecord -g -a -e %s, %d drops at %d/s, %d runs each in turns\n", event, drops, b.rate, b.runs)
		}
		cpu := func(u usage) time.Duration { return u.cpu() }
		printRows(rows, drops, "gperf's CPU / perf's", func(r, against *row) float64 {
			return ratio(r.median(cpu), against.median(cpu))
		})
	}
	return nil
}

func (b *bench) recordOnce(t tool, drops int) (usage, error) {
	file := filepath.Join(b.dir, "record.data")
	defer os.Remove(file)
	defer os.Remove(file + ".old")
	cmd, stderr := t.command(nil, "record", "-g", "-a", "-e", event, "-o", file)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	time.Sleep(time.Second) // both are recording by then; waiting costs them next to nothing
	load := exec.Command(b.dropper, "-n", strconv.Itoa(drops), "-rate", strconv.Itoa(b.rate))
	loadStart := time.Now()
	if out, err := load.CombinedOutput(); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return usage{}, fmt.Errorf("%s: %w\n%s", load, err, out)
	}
	loaded := time.Since(loadStart)
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil && !interrupted(err) {
		return usage{}, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	u := used(cmd.ProcessState, time.Since(start))
	u.load, u.loadCPU = loaded, load.ProcessState.UserTime()+load.ProcessState.SystemTime()
	var err error
	_, u.samples, err = b.readers(file)
	return u, err
}

// interrupted reports whether a command ended by the SIGINT it was sent: perf does so, by its own hand.
func interrupted(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == syscall.SIGINT || status.ExitStatus() == 128+int(syscall.SIGINT))
}

var sampleEvents = regexp.MustCompile(`SAMPLE events:\s*(\d+)`)

// readers returns the perfs that can read file, which the old ones cannot if a new one wrote it, and how many
// samples they find there.
func (b *bench) readers(file string) (perfs []tool, samples int, err error) {
	for _, p := range b.perfs {
		var out bytes.Buffer
		cmd, stderr := p.command(&out, "report", "--stats", "-i", file)
		if failed := cmd.Run(); failed != nil {
			err = fmt.Errorf("%s: %w\n%s", cmd, failed, stderr)
			continue
		}
		perfs = append(perfs, p)
		if m := sampleEvents.FindSubmatch(out.Bytes()); m != nil {
			samples, _ = strconv.Atoi(string(m[1]))
		}
	}
	if len(perfs) > 0 {
		err = nil
	}
	return perfs, samples, err
}

// time runs one command, its output going nowhere.
func (b *bench) time(t tool, args ...string) (usage, error) {
	cmd, stderr := t.command(nil, args...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	return used(cmd.ProcessState, time.Since(start)), nil
}

// command prepares the tool with args; stdout nil is /dev/null itself, not a pipe that must be drained.
func (t tool) command(stdout io.Writer, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(t.argv[0], slices.Concat(t.argv[1:], args)...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	return cmd, &stderr
}

// usage is what one run took.
type usage struct {
	wall, user, system time.Duration
	maxRSS             int64 // bytes

	load, loadCPU time.Duration // wall and CPU time of what was recorded
	samples       int           // in the file that was written
}

func (u usage) cpu() time.Duration { return u.user + u.system }

func used(p *os.ProcessState, wall time.Duration) usage {
	return usage{wall: wall, user: p.UserTime(), system: p.SystemTime(),
		maxRSS: p.SysUsage().(*syscall.Rusage).Maxrss << 10}
}

// A row of the table: one command and its runs.
type row struct {
	tool    tool
	args    []string
	runs    []usage
	against []*row // those it is compared with
}

// command names the row; the file, -i's, is the same for the whole table.
func (r *row) command() string {
	return strings.Join(append([]string{r.tool.name}, r.args[:max(0, len(r.args)-2)]...), " ")
}

// sorted returns the runs' figures in order.
func (r *row) sorted(figure func(usage) time.Duration) []time.Duration {
	s := make([]time.Duration, 0, len(r.runs))
	for _, u := range r.runs {
		s = append(s, figure(u))
	}
	slices.Sort(s)
	return s
}

func (r *row) median(figure func(usage) time.Duration) time.Duration {
	s := r.sorted(figure)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a.Seconds() / b.Seconds()
}

// printRows prints the rows and below them their ratios; drops is how many were recorded.
func printRows(rows []*row, drops int, ratioName string, ratioOf func(r, against *row) float64) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	recording := rows[0].args == nil
	fmt.Fprint(w, "command\twall s: min\tmedian\tmax\tCPU s: min\tmedian\tmax\tmax RSS MB")
	if recording {
		fmt.Fprint(w, "\tload's CPU s\tdrops/s\tfewest samples")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprint(w, r.command())
		for _, figure := range []func(usage) time.Duration{func(u usage) time.Duration { return u.wall }, usage.cpu} {
			s := r.sorted(figure)
			fmt.Fprintf(w, "\t%.3f\t%.3f\t%.3f", s[0].Seconds(), r.median(figure).Seconds(), s[len(s)-1].Seconds())
		}
		rss := slices.MaxFunc(r.runs, func(a, b usage) int { return cmp.Compare(a.maxRSS, b.maxRSS) }).maxRSS
		fmt.Fprintf(w, "\t%.1f", float64(rss)/(1<<20))
		if recording {
			fewest := slices.MinFunc(r.runs, func(a, b usage) int { return cmp.Compare(a.samples, b.samples) }).samples
			fmt.Fprintf(w, "\t%.3f\t%.0f\t%d", r.median(func(u usage) time.Duration { return u.loadCPU }).Seconds(),
				ratio(time.Duration(drops)*time.Second, r.median(func(u usage) time.Duration { return u.load })), fewest)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	for _, r := range rows {
		for _, against := range r.against {
			fmt.Printf("%s, medians: %.2f  (%s against %s)\n", ratioName, ratioOf(r, against), r.command(), against.command())
		}
	}
}
