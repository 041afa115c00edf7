package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// lineSamples is the number of samples of a Go program to print with lines.
const lineSamples = 47000

// lines measures script with inline frames and source lines on samples of a Go program, gperf itself: with an empty
// cache, with the lines that an earlier run cached, and without lines.
func (b *bench) lines() error {
	file := filepath.Join(b.dir, "go.data")
	if err := b.recordGo(file); err != nil {
		return err
	}
	perfs, samples, err := b.readers(file)
	if err != nil {
		return err
	}
	var rows []*row
	for _, p := range perfs {
		rows = append(rows, &row{tool: p, args: []string{"script", "-F", "+srcline", "-i", file}})
	}
	// gperf caches the lines of programs from earlier runs.
	cached := filepath.Join(b.dir, "cache")
	in := func(dir, name string) tool {
		return tool{name, slices.Concat([]string{"env", "XDG_CACHE_HOME=" + dir}, b.gperf.argv)}
	}
	if _, err := b.time(in(cached, ""), "script", "-F", "+srcline", "-i", file); err != nil {
		return err
	}
	cold := filepath.Join(b.dir, "cold")
	warm := &row{tool: in(cached, "gperf"), args: []string{"script", "-F", "+srcline", "-i", file}, against: rows}
	plain := &row{tool: in(cached, "gperf"), args: []string{"script", "--no-inline", "-i", file}}
	plain.against = []*row{warm}
	first := &row{tool: in(cold, "gperf, nothing cached:"), args: warm.args, against: rows, before: func() error {
		return os.RemoveAll(cold)
	}}
	return b.readRows(file, samples, slices.Concat(rows, []*row{warm, first, plain}))
}

// recordGo records gperf itself while it reads many drops, until there are enough samples.
func (b *bench) recordGo(file string) error {
	drops := filepath.Join(b.dir, "lines-drops.data")
	defer os.Remove(drops)
	if _, err := b.time(b.gperf, "record", "-q", "-g", "-a", "-e", event, "-o", drops, "--", b.dropper, "-n",
		"100000"); err != nil {
		return err
	}
	const rate = 10000                            // samples per second and CPU
	seconds := strconv.Itoa(2 + lineSamples/rate) // the first second is for the start
	_, err := b.time(b.gperf, "record", "-q", "-F", strconv.Itoa(rate), "-g", "-e", "cpu-clock:u", "-o", file, "--",
		"sh", "-c",
		`end=$(($(date +%s) + $1)); while [ $(date +%s) -lt $end ]; do "$2" script -i "$3" >/dev/null; "$2" `+
			`report --stdio -i "$3" >/dev/null; done`,
		"sh", seconds, b.gperf.argv[0], drops)
	return err
}
