package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"
)

// spinSource computes for the given number of ms, in functions without frame pointers.
const spinSource = `
#include <stdlib.h>
#include <time.h>

static volatile double sink;

__attribute__((noinline)) static double work(int n) {
	double x = n;
	for (int i = 0; i < 1000; i++)
		x = x * 1.0000001 + i;
	sink = x;
	return x;
}

int main(int argc, char **argv) {
	clock_t end = clock() + atol(argv[1]) * (CLOCKS_PER_SEC / 1000);
	double x = 0;
	while (clock() < end)
		x += work((int)x);
	return x < 0;
}
`

const (
	shortPerSecond = 100 // processes that exit immediately
	newPerSecond   = 5   // new programs, each sampled about ten times at 99 Hz
	newRunsFor     = 100 // ms of CPU
)

// long measures the CPU time and memory of a recorder per minute, while many short processes and new programs run:
// the recorder's memory for exited processes must not accumulate.
func (b longPart) long() error {
	program, err := b.newSpin()
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "long.data")
	cmd, stderr := b.command(b.gperf, nil, "record", "-F", "99", "-a", "-g", "-z", "-o", file)
	// An empty cache.
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(b.dir, "cache"))
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { every(stop, time.Second/shortPerSecond, func() { exec.Command("/bin/true").Run() }) })
	load.Go(func() { every(stop, time.Second/newPerSecond, program.runAnother) })
	fmt.Printf("\nrecord -F 99 -a -g -z with %d short processes and %d new programs a second\n",
		shortPerSecond, newPerSecond)
	err = b.watch(cmd.Process.Pid)
	cmd.Process.Signal(os.Interrupt)
	if e := cmd.Wait(); err == nil && e != nil && !interrupted(e) {
		err = fmt.Errorf("%s: %w\n%s", cmd, e, stderr)
	}
	close(stop)
	load.Wait()
	fmt.Print(stderr)
	return err
}

// watch prints the CPU time and memory of a process every minute.
func (b longPart) watch(pid int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "minute\tRSS MB\tof it its own\tCPU of one core")
	last, err := totalCPU(pid)
	for minute := 1; err == nil && minute <= b.minutes; minute++ {
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(time.Minute):
		}
		var cpu time.Duration
		status, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err = readErr; err == nil {
			cpu, err = totalCPU(pid)
		}
		const mb = 1 << 10 // in kB, the unit of these fields
		fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.2f%%\n", minute, float64(field(status, "VmRSS:"))/mb,
			float64(field(status, "RssAnon:"))/mb, 100*(cpu-last).Seconds()/60)
		last = cpu
	}
	return err
}

// every calls f at an interval, each call in a new goroutine, until stop is closed.
func every(stop <-chan struct{}, interval time.Duration, f func()) {
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			running.Go(f)
		}
	}
}

// spin is the program of spinSource; runAnother runs copies of it with other build IDs.
type spin struct {
	dir   string
	image []byte
	idOff int // of the build ID in image
	mu    sync.Mutex
	n     int
}

func (b longPart) newSpin() (*spin, error) {
	p := &spin{dir: b.dir}
	var err error
	p.image, p.idOff, err = compileWithID(spinSource, filepath.Join(b.dir, "spin"), "-O2", "-static")
	return p, err
}

// runAnother runs a copy of the program with a new build ID. It ignores errors: they only reduce the load.
func (p *spin) runAnother() {
	p.mu.Lock()
	p.n++
	path := filepath.Join(p.dir, "spin"+strconv.Itoa(p.n))
	p.mu.Unlock()
	image := bytes.Clone(p.image)
	rand.Read(image[p.idOff:][:idSize])
	defer os.Remove(path)
	if os.WriteFile(path, image, 0o777) == nil {
		exec.Command(path, strconv.Itoa(newRunsFor)).Run()
	}
}

// totalCPU returns the CPU time of a process, including ended threads.
func totalCPU(pid int) (time.Duration, error) {
	user, system, err := cpuOf(pid)
	return user + system, err
}
