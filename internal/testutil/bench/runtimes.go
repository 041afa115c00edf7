package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gperf/format"
)

// runtimesScript prepares and runs the loads of the runtimes.
const runtimesScript = "testdata/runtimes/load.sh"

// runtimes records the load of each runtime alone, then all at the same time, and compares the numbers of complete
// stacks.
func (b runtimePart) runtimes() error {
	dir := filepath.Join(b.dir, "runtimes")
	if err := os.Chmod(b.dir, 0o755); err != nil { // PostgreSQL's server runs as another user
		return err
	}
	if out, err := exec.CommandContext(b.ctx, runtimesScript, "prepare", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("prepare the loads: %w\n%s", err, out)
	}
	loads, err := b.chosenLoads(dir)
	if err != nil {
		return err
	}
	restore, err := countBPF()
	if err != nil {
		return err
	}
	defer restore()
	by := []grapher{{b.gperf, "dwarf"}}
	for _, p := range b.perfs {
		by = append(by, grapher{p, "fp"}, grapher{p, "dwarf"})
	}
	fmt.Printf("\nrecord -a -e cpu-clock -F 999 of loads of %d s, with new caches, %s\n", b.loadSeconds, loadAverage())
	printRuntimesHeader(by)
	var installed []string
	for _, load := range loads {
		if missing, ok := strings.CutPrefix(load, "-"); ok {
			fmt.Printf("%-16snot installed\n", missing)
			continue
		}
		installed = append(installed, load)
		if err := b.recordLoads(by, dir, load); err != nil {
			return err
		}
	}
	if len(installed) < 2 {
		return nil
	}
	return b.recordLoads(by, dir, installed...)
}

// chosenLoads returns the loads of -loads, by default all. Those whose programs are not installed begin with "-".
func (b runtimePart) chosenLoads(dir string) ([]string, error) {
	out, err := exec.CommandContext(b.ctx, runtimesScript, "list", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("list the loads: %w", err)
	}
	all := strings.Fields(string(out))
	if b.loads == "" {
		return all, nil
	}
	var chosen []string
	for load := range strings.SplitSeq(b.loads, ",") {
		i := slices.IndexFunc(all, func(name string) bool { return strings.TrimPrefix(name, "-") == load })
		if i < 0 {
			return nil, fmt.Errorf("-loads: no load %q, the loads are %s", load, strings.Join(all, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// recordLoads records loads at the same time by each, and prints a row for each load. With several loads, the first
// row is the sum.
func (b runtimePart) recordLoads(by []grapher, dir string, loads ...string) error {
	argv := append([]string{runtimesScript, "run", dir, strconv.Itoa(b.loadSeconds)}, loads...)
	var recordings []*recording
	var counts []map[string]stackCount
	for _, g := range by {
		r, err := b.recordFile(g, []string{"-a", "-e", "cpu-clock", "-F", "999"}, argv)
		var c map[string]stackCount
		if err == nil {
			c, err = b.countByLoad(r)
			os.Remove(r.file)
		}
		if b.ctx.Err() != nil {
			return err
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s of %s failed: %v\n", g, strings.Join(loads, ","), err)
			r = nil
		}
		recordings, counts = append(recordings, r), append(counts, c)
	}
	if len(loads) > 1 {
		printRuntimesRow("together", "", recordings, counts)
	}
	for _, load := range loads {
		cost := recordings
		if len(loads) > 1 {
			cost = nil
		}
		printRuntimesRow(load, load, cost, counts)
	}
	for _, end := range counts[0][""].frequentEnds() {
		fmt.Println("   ", end)
	}
	return nil
}

// frequentEnds returns the most frequent outermost frames of incomplete stacks, with counts.
func (c stackCount) frequentEnds() (l []string) {
	ends := slices.SortedFunc(maps.Keys(c.ends), func(a, b string) int { return c.ends[b] - c.ends[a] })
	for _, end := range ends[:min(4, len(ends))] {
		l = append(l, fmt.Sprintf("%d end at %s", c.ends[end], end))
	}
	return l
}

func printRuntimesHeader(by []grapher) {
	fmt.Printf("%-16s%36s", "", by[0])
	for _, g := range by[1:] {
		fmt.Printf(" | %26s", strings.Replace(g.String(), " --call-graph", "", 1))
	}
	fmt.Printf("\n%-16s%8s%11s%10s%7s", "load", "stacks", "complete", "ns/sample", "RSS MB")
	for range by[1:] {
		fmt.Printf(" | %12s%14s", "stacks", "complete")
	}
	fmt.Println()
}

// printRuntimesRow prints the counts of a load, "" for the sum of all; and the cost of recording, if it is known for
// this row.
func printRuntimesRow(name, load string, cost []*recording, counts []map[string]stackCount) {
	fmt.Printf("%-16s", name)
	for i, count := range counts {
		switch c := count[load]; {
		case i == 0 && count == nil:
			fmt.Printf("%36s", "failed")
		case i == 0:
			fmt.Printf("%8d%11s", c.stacks, c.percent())
			if cost == nil {
				fmt.Printf("%17s", "")
			} else {
				r := cost[0]
				fmt.Printf("%10.0f%7.1f", float64(r.bpf.time.Nanoseconds())/float64(max(1, r.bpf.runs)),
					float64(r.maxRSS)/(1<<20))
			}
		case count == nil:
			fmt.Printf(" | %26s", "failed")
		default:
			fmt.Printf(" | %12d%14s", c.stacks, c.percent())
		}
	}
	fmt.Println()
}

// stackCount counts the samples of a load with a user stack.
type stackCount struct {
	stacks, complete   int
	late, lateComplete int // those a second after the load's first one, and later
	first              float64
	ends               map[string]int // the outermost frames of incomplete stacks
}

func (c stackCount) percent() string { return percent(c.complete, c.stacks) }

func percent(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(all))
}

// add counts a stack at a time in seconds, with the names of the two outermost frames. Times are in order.
func (c *stackCount) add(time float64, outer [2]string) {
	if c.stacks == 0 {
		c.first, c.ends = time, map[string]int{}
	}
	n := 1
	if !isStart(outer[0]) && !isStart(outer[1]) {
		n = 0
		c.ends[outer[1]]++
	}
	c.stacks++
	c.complete += n
	if time > c.first+1 {
		c.late++
		c.lateComplete += n
	}
}

// countByLoad counts the user stacks of each load's processes, and of all loads at "". Samples in kernel threads and
// without user stack do not count.
//
// A stack is complete if the outermost frame, or the frame that this one called, is one of the functions in which
// programs and threads start. The latter is for programs without symbols, whose _start is unnamed. The script
// command of the tool that made a recording with stack copies unwinds the recording.
func (b *bench) countByLoad(r *recording) (map[string]stackCount, error) {
	loads, err := processLoads(r.file)
	if err != nil {
		return nil, err
	}
	args := []string{"script", "--no-inline", "--max-stack", "1024", "-F", "pid,time,ip,sym,dso", "-i", r.file}
	t := r.by.tool
	if r.by.graph != "dwarf" {
		t = b.gperf // the file contains the frames
	}
	cmd, stderr := b.command(t, nil, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	counts := map[string]stackCount{}
	count := func(load string, time float64, outer [2]string) {
		c := counts[load]
		c.add(time, outer)
		counts[load] = c
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20) // names of C++ functions can be long
	var load string
	var time float64
	var outer [2]string // the names of the last two user frames
	frames := 0
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "":
			if frames > 0 && load != "" {
				count(load, time, outer)
				count("", time, outer)
			}
			outer, frames = [2]string{}, 0
		case line[0] != '\t':
			var pid int32 // -1: an exited thread
			if _, err := fmt.Sscanf(line, "%d %f:", &pid, &time); err != nil {
				return nil, fmt.Errorf("%s: line %q: %w", cmd, line, err)
			}
			load = loads[pid]
		default:
			address, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			if ip, err := strconv.ParseUint(address, 16, 64); err == nil && ip < 1<<63 {
				outer = [2]string{outer[1], name}
				frames++
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, stderr)
	}
	return counts, lines.Err()
}

// starts are the functions without callers, or whose callers are only such functions.
var starts = []string{"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main",
	"start_thread", "clone", "__clone", "clone3", "__clone3", "__clone_internal", "_dl_start_user",
	"runtime.goexit", "runtime.mstart", "runtime.rt0_go"}

// isStart reports whether a frame, as "FUNCTION (DSO)", is such a function.
func isStart(frame string) bool {
	name, _, _ := strings.Cut(frame, " ")
	name, _, _ = strings.Cut(name, "@@") // a version
	return slices.Contains(starts, strings.TrimSuffix(name, ".abi0"))
}

// processLoads returns the load to which each process of a recording belongs: the first process of a load is named
// @LOAD, the others are descendants of the first.
func processLoads(file string) (map[int32]string, error) {
	parents, loads := map[int32]int32{}, map[int32]string{}
	_, err := eachRecord(file, func(rec format.Record) {
		switch rec := rec.(type) {
		case *format.Fork:
			if rec.PID != rec.PPID {
				parents[rec.PID] = rec.PPID
			}
		case *format.Comm:
			if load, ok := strings.CutPrefix(rec.Comm, "@"); ok && loads[rec.PID] == "" {
				loads[rec.PID] = strings.Clone(load)
			}
		}
	})
	for pid := range parents {
		for p := pid; p != 0 && loads[pid] == ""; p = parents[p] {
			loads[pid] = loads[p]
		}
	}
	return loads, err
}
