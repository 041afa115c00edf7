package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// churn measures recordings while processes come and go, of many processes, and of many libraries.
func (b churnPart) churn() error {
	by := []grapher{{b.gperf, "dwarf"}}
	for _, p := range b.perfs {
		by = append(by, grapher{p, "fp"}, grapher{p, "dwarf"})
	}
	for _, load := range []struct {
		name    string
		measure func([]grapher) error
	}{{"storm", b.forkStorm}, {"processes", b.manyProcesses}, {"libraries", b.manyLibraries}} {
		if b.loads != "" && !slices.Contains(strings.Split(b.loads, ","), load.name) {
			continue
		}
		if err := load.measure(by); err != nil {
			return err
		}
	}
	return nil
}

// wholeSystem are the options of all recordings of this part.
var wholeSystem = []string{"-a", "-e", "cpu-clock", "-F", "999"}

// stormProcesses is the number of processes of a fork storm.
const stormProcesses = 10000

// stormCommand starts processes one after the other in each of four shells. It prints the wall time and the CPU
// time in user mode. The name of the first process is the one that countByLoad looks for.
func stormCommand() []string {
	shell := fmt.Sprintf("n=0; while [ $n -lt %d ]; do /bin/true; n=$((n + 1)); done", stormProcesses/4)
	return []string{"bash", "-c", `printf @storm >/proc/$$/comm; TIMEFORMAT="%3R %3U"
		{ time { for i in 1 2 3 4; do sh -c "$0" & done; wait; }; } 2>&1`, shell}
}

// forkStorm compares the time of a fork storm alone with the time of a recorded fork storm.
func (b churnPart) forkStorm(by []grapher) error {
	rows := make([]stormRow, 1+len(by))
	for range b.runs {
		for i := range rows {
			var err error
			if i == 0 {
				var u usage
				argv := stormCommand()
				u, err = b.timesItself(tool{"", argv[:1]}, argv[1:]...)
				rows[i].add(u.load, nil, stackCount{})
			} else {
				err = b.recordStorm(&rows[i], by[i-1])
			}
			if err != nil {
				return err
			}
		}
	}
	alone := median(rows[0].wall)
	fmt.Printf("\n%d /bin/true in four shells, record %s, %d runs each in turns, %s\n", stormProcesses,
		strings.Join(wholeSystem, " "), b.runs, loadAverage())
	w := newTable(
		"recorder\twall s: min\tmedian\tmax\tslower\tuser stacks\tcomplete\tlost\trecorder's CPU s\tmax RSS MB")
	for i := range rows {
		r, name := &rows[i], "nothing"
		if i > 0 {
			name = by[i-1].String()
		}
		fmt.Fprintf(w, "%s\t%s\t", name, spread(r.wall, 2))
		if i > 0 {
			fmt.Fprintf(w, "%+.1f %%\t%d\t%s\t%d\t%.2f\t%.1f", 100*(ratio(median(r.wall), alone)-1), r.count.stacks,
				r.count.percent(), r.lost, r.cpu.Seconds()/float64(b.runs), float64(r.maxRSS)/(1<<20))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// stormRow is the figures of the runs of a fork storm under one recorder.
type stormRow struct {
	wall   []time.Duration
	count  stackCount // of all runs, as lost and cpu
	lost   uint64
	cpu    time.Duration
	maxRSS int64
}

// add adds a run; rec is nil without recorder.
func (r *stormRow) add(wall time.Duration, rec *recording, c stackCount) {
	r.wall = append(r.wall, wall)
	if rec == nil {
		return
	}
	r.count.stacks += c.stacks
	r.count.complete += c.complete
	r.lost += rec.lost
	r.cpu += rec.cpu()
	r.maxRSS = max(r.maxRSS, rec.maxRSS)
}

func (b churnPart) recordStorm(row *stormRow, g grapher) error {
	r, err := b.recordFile(g, wholeSystem, stormCommand())
	if err != nil {
		return err
	}
	defer os.Remove(r.file)
	counts, err := b.countByLoad(r)
	if err != nil {
		return err
	}
	var wall, cpu float64
	if _, err := fmt.Sscan(r.output, &wall, &cpu); err != nil {
		return fmt.Errorf("times of the fork storm under %s: %w", g, err)
	}
	row.add(time.Duration(wall*1e9), r, counts["storm"])
	return nil
}

// manyProcesses measures the time until a recorder starts the command while many processes exist.
func (b churnPart) manyProcesses(by []grapher) error {
	const processes = 10000
	stop, err := b.sleepers(processes)
	if err != nil {
		return err
	}
	defer stop()
	by = slices.DeleteFunc(slices.Clone(by), func(g grapher) bool { // perf starts equally with stack copies
		return g.graph == "dwarf" && g.name != b.gperf.name
	})
	starts := make([][]time.Duration, len(by))
	for range b.runs {
		for i, g := range by {
			r, err := b.recordFile(g, wholeSystem, []string{"date", "+%s%N"})
			if err != nil {
				return err
			}
			os.Remove(r.file)
			ns, err := strconv.ParseInt(strings.TrimSpace(r.output), 10, 64)
			if err != nil {
				return err
			}
			starts[i] = append(starts[i], time.Unix(0, ns).Sub(r.start))
		}
	}
	fmt.Printf("\nseconds until the command starts, with %d processes, %d runs each in turns, %s\n", processes, b.runs,
		loadAverage())
	w := newTable("recorder\tmin\tmedian\tmax")
	for i, g := range by {
		fmt.Fprintf(w, "%s\t%s\n", g, spread(starts[i], 2))
	}
	return w.Flush()
}

// sleepers starts processes that sleep until stop. A hundred shells start them: a shell slows down with many children.
func (b churnPart) sleepers(n int) (stop func(), err error) {
	cmd := exec.CommandContext(b.ctx, "sh", "-c", fmt.Sprintf(
		`for i in $(seq 100); do (for j in $(seq %d); do sleep 1000 >&2 & done) & done; wait; echo started; sleep 1000`,
		n/100))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		cmd.Cancel()
		cmd.Wait()
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		stop()
		return nil, fmt.Errorf("start %d processes: %w", n, err)
	}
	return stop, nil
}
