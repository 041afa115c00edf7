package main

import (
	"bytes"
	"crypto/rand"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	last, err := cpuOf(pid)
	for minute := 1; err == nil && minute <= b.minutes; minute++ {
		select {
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-time.After(time.Minute):
		}
		var rss, anon int64
		var cpu time.Duration
		if rss, anon, err = memoryOf(pid); err == nil {
			cpu, err = cpuOf(pid)
		}
		fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.2f%%\n", minute, float64(rss)/(1<<20), float64(anon)/(1<<20),
			100*(cpu-last).Seconds()/60)
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
	idOff int64 // of the build ID in image
	mu    sync.Mutex
	n     int
}

func (b longPart) newSpin() (*spin, error) {
	p := &spin{dir: b.dir}
	path := filepath.Join(b.dir, "spin")
	if err := os.WriteFile(path+".c", []byte(spinSource), 0o666); err != nil {
		return nil, err
	}
	cmd := exec.Command("gcc", "-O2", "-static", "-Wl,--build-id", "-o", path, path+".c")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	note := f.Section(".note.gnu.build-id")
	if note == nil {
		return nil, errors.New("gcc makes programs without build IDs")
	}
	const header = 16 // sizes, type and "GNU"
	p.idOff = int64(note.Offset) + header
	p.image, err = os.ReadFile(path)
	return p, err
}

// runAnother runs a copy of the program with a new build ID. It ignores errors: they only reduce the load.
func (p *spin) runAnother() {
	p.mu.Lock()
	p.n++
	path := filepath.Join(p.dir, "spin"+strconv.Itoa(p.n))
	p.mu.Unlock()
	image := bytes.Clone(p.image)
	rand.Read(image[p.idOff:][:20])
	defer os.Remove(path)
	if os.WriteFile(path, image, 0o777) == nil {
		exec.Command(path, strconv.Itoa(newRunsFor)).Run()
	}
}

// memoryOf returns a process's resident memory, and the anonymous part of it, in bytes.
func memoryOf(pid int) (rss, anon int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			rss = kb << 10
		case "RssAnon":
			anon = kb << 10
		}
	}
	return rss, anon, nil
}

// clockTick is the unit of CPU time in /proc/PID/stat (USER_HZ), which is the same on all machines.
const clockTick = 10 * time.Millisecond

// cpuOf returns the CPU time of a process, including ended threads.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	const utime, stime = 14 - 3, 15 - 3 // the fields that follow the name begin with the third
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, b)
	}
	var ticks int64
	for _, f := range []int{utime, stime} {
		n, _ := strconv.ParseInt(fields[f], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
