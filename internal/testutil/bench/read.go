package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// read measures script and report on each file.
func (b readPart) read() error {
	if len(b.files) == 0 {
		for _, t := range []tool{b.gperf, b.perfs[0]} {
			file := filepath.Join(b.dir, "by-"+strings.Fields(t.name)[0]+".data")
			args := []string{"record", "-q", "-m", "16M", "-g", "-a", "-e", event, "-o", file, "--", b.dropper, "-n",
				strconv.Itoa(b.drops)}
			if _, err := b.time(t, args...); err != nil {
				return err
			}
			b.files = append(b.files, file)
		}
		file, err := b.recordBuild()
		if err != nil {
			return err
		}
		b.files = append(b.files, file)
	}
	for _, file := range b.files {
		perfs, samples, err := b.readers(file)
		if err != nil {
			return err
		}
		flat := []string{"report", "--stdio", "--no-children", "-g", "none", "-i", file}
		var scripts, reports, flats []*row
		for _, p := range perfs {
			scripts = append(scripts, &row{tool: p, args: []string{"script", "--no-inline", "-i", file}})
			reports = append(reports, &row{tool: p, args: []string{"report", "--stdio", "-i", file}})
			flats = append(flats, &row{tool: p, args: flat})
		}
		rows := slices.Concat(scripts, []*row{
			{tool: b.gperf, args: []string{"script", "--no-inline", "-i", file}, against: scripts},
			{tool: b.gperf, args: []string{"script", "--format", "folded", "-i", file}, against: scripts},
		}, reports, []*row{
			{tool: b.gperf, args: []string{"report", "--stdio", "-i", file}, against: reports},
		}, flats, []*row{
			{tool: b.gperf, args: flat, against: flats},
		})
		if err := b.readRows(file, samples, rows); err != nil {
			return err
		}
	}
	return nil
}

// recordBuild lets the first perf record the build of a Go program from an empty cache: many short processes, many
// distinct stacks.
func (b readPart) recordBuild() (string, error) {
	file := filepath.Join(b.dir, "go-build.data")
	cache := filepath.Join(b.dir, "go-cache")
	defer os.RemoveAll(cache)
	_, err := b.time(b.perfs[0], "record", "-q", "-F", "4999", "-g", "-e", "cpu-clock", "-o", file, "--",
		"env", "GOCACHE="+cache, "GOFLAGS=-buildvcs=false", "go", "build", "-o", os.DevNull, "./cmd/gperf")
	return file, err
}

// readBig measures the memory for reading a file of gigabytes.
func (b readPart) readBig() error {
	if b.big == 0 {
		return nil
	}
	file := filepath.Join(b.dir, "big.data")
	defer os.Remove(file)
	_, err := b.time(b.gperf, "record", "-q", "-m", "16M", "--call-graph", "fp", "-a", "-e", event, "-o", file, "--",
		b.dropper, "-n", strconv.Itoa(b.big), "-rate", "250000")
	if err != nil {
		return err
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	rows := []*row{
		{tool: b.gperf, args: []string{"script", "-i", file}},
		{tool: b.gperf, args: []string{"script", "--format", "folded", "-i", file}},
		{tool: b.gperf, args: []string{"report", "--stdio", "-i", file}},
	}
	for _, r := range rows {
		u, err := b.time(r.tool, r.args...)
		if err != nil {
			return err
		}
		r.runs = append(r.runs, u)
	}
	fmt.Printf("\nreading %.2f GB: %d drops, one run each, %s\n", float64(st.Size())/1e9, b.big, loadAverage())
	printRows(rows, 0, "", nil)
	return nil
}

// readRows runs the rows, which read file, in turns and prints them.
func (b *bench) readRows(file string, samples int, rows []*row) error {
	for range b.runs {
		for _, r := range rows {
			if r.before != nil {
				if err := r.before(); err != nil {
					return err
				}
			}
			u, err := b.time(r.tool, r.args...)
			if err != nil {
				return err
			}
			r.runs = append(r.runs, u)
		}
	}
	fmt.Printf("\nreading %s: %d samples, %d runs each in turns, %s\n", filepath.Base(file), samples,
		b.runs, loadAverage())
	wall := func(u usage) time.Duration { return u.wall }
	printRows(rows, 0, "perf's wall / gperf's", func(r, against *row) float64 {
		return ratio(against.median(wall), r.median(wall))
	})
	return nil
}

// loadAverage returns the load average of the machine.
func loadAverage() string {
	avg, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(avg)); err == nil && len(f) > 0 {
		return "load average " + f[0]
	}
	return "load average unknown"
}

var sampleEvents = regexp.MustCompile(`SAMPLE events:\s*(\d+)`)

// readers returns the perfs that can read file, and the number of samples that they find. Old ones cannot read
// files of new ones.
func (b *bench) readers(file string) (perfs []tool, samples int, err error) {
	for _, p := range b.perfs {
		var out bytes.Buffer
		cmd, stderr := b.command(p, &out, "report", "--stats", "-i", file)
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
