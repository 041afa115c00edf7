package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// record measures the cost of a recorder: first of start and end only, then under load. The load runs next to the
// recorder, not as the recorder's command, so that the CPU times are separate.
func (b *bench) record() error {
	for _, drops := range []int{0, b.rate * b.seconds} {
		// perf's samples contain no packets: gperf is measured with and without them.
		rows := []*row{{tool: b.gperf}, {tool: tool{b.gperf.name + " --no-packet", b.gperf.argv}}}
		for _, p := range b.perfs {
			r := &row{tool: p}
			rows = append(rows, r)
			rows[0].against = append(rows[0].against, r)
			rows[1].against = append(rows[1].against, r)
		}
		for range b.runs {
			for i, r := range rows {
				var flags []string
				if i == 1 {
					flags = []string{"--no-packet"}
				}
				u, err := b.recordOnce(r.tool, drops, flags...)
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

func (b *bench) recordOnce(t tool, drops int, flags ...string) (usage, error) {
	file := filepath.Join(b.dir, "record.data")
	defer os.Remove(file)
	defer os.Remove(file + ".old")
	cmd, stderr := b.command(t, nil, append([]string{"record", "-g", "-a", "-e", event, "-o", file}, flags...)...)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	time.Sleep(time.Second) // both are recording by then; waiting costs them almost nothing
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

// interrupted reports whether a command ended by the SIGINT that it received: perf ends itself with this signal.
func interrupted(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() && status.Signal() == syscall.SIGINT ||
		status.ExitStatus() == 128+int(syscall.SIGINT))
}
