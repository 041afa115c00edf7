package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A grapher is a tool with the tool's flags for callchains.
type grapher struct {
	tool
	graph string
}

func (g grapher) String() string { return g.name + " --call-graph " + g.graph }

// graphers returns the graphers of gperf and the perfs, gperf first.
func (b dwarfPart) graphers(graphs ...string) []grapher {
	var l []grapher
	for _, t := range append([]tool{b.gperf}, b.perfs...) {
		for _, graph := range graphs {
			l = append(l, grapher{t, graph})
		}
	}
	return l
}

// dwarf measures the unwinding of user stacks.
func (b dwarfPart) dwarf() error {
	w, err := b.makeWorkloads()
	if err != nil {
		return err
	}
	for _, measure := range []func(*workloads) error{
		b.whole, b.everyHit, b.bpfTime, b.slowDown, b.wholeMachine, b.tables, b.readStacks,
	} {
		if err := measure(w); err != nil {
			return err
		}
	}
	return nil
}

// whole records compilers, whose code uses no frame pointers, and measures the number and the cost of complete stacks.
func (b dwarfPart) whole(w *workloads) error {
	for _, load := range []struct {
		name, freq string
		argv       []string
	}{
		{"g++ -O2 -c of one heavy file", "5000", w.heavy},
		{fmt.Sprintf("make -j2 of %d tiny C++ files", b.units), "999", w.tiny},
	} {
		stackCopies := func(g grapher) bool { return g.graph == "dwarf" && g.name != b.gperf.name }
		title := "record -e cpu-clock -F " + load.freq + ", " + load.name
		files, err := b.recordAll(title, b.graphers("dwarf", "fp"), []string{"-e", "cpu-clock", "-F", load.freq},
			load.argv, stackCopies)
		if err != nil {
			return err
		}
		w.stackFiles = append(w.stackFiles, files...)
	}
	return nil
}

// everyHit records every hit of a frequent uprobe.
func (b dwarfPart) everyHit(w *workloads) error {
	const frames, hits = 30, 200000
	remove, err := w.probe()
	if err != nil {
		return err
	}
	defer remove()
	title := fmt.Sprintf("record -e %s, hit %d times in a tight loop %d frames deep", probeEvent, hits, frames)
	_, err = b.recordAll(title, b.graphers("dwarf"), []string{"-e", probeEvent, "-c", "1"}, w.deep(frames, hits), nil)
	return err
}

// bpfTime measures the time of gperf's BPF program per sample and per frame.
func (b dwarfPart) bpfTime(w *workloads) error {
	restore, err := countBPF()
	if err != nil {
		return err
	}
	defer restore()
	remove, err := w.probe()
	if err != nil {
		return err
	}
	defer remove()
	spin, err := b.calibrate(w, time.Duration(b.seconds)*time.Second)
	if err != nil {
		return err
	}
	const hits = 50000
	var lastNS, lastFrames float64
	tw := newTable("event\tprogram\tsamples\tframes, mean\tBPF runs\tns a run\tns a frame more")
	for _, c := range []struct {
		name    string
		opts    []string
		program string
		argv    []string
		deeper  bool // than the one before
	}{
		{"cpu-clock", []string{"-e", "cpu-clock", "-F", "4000"}, "20 frames deep", w.deep(20, spin), false},
		{"cpu-clock", []string{"-e", "cpu-clock", "-F", "4000"}, "220 frames deep", w.deep(220, spin), true},
		{"uprobe", []string{"-e", probeEvent, "-c", "1"}, "20 frames deep", w.deep(20, hits), false},
		{"uprobe", []string{"-e", probeEvent, "-c", "1"}, "220 frames deep", w.deep(220, hits), true},
		{"cpu-clock", []string{"-e", "cpu-clock", "-F", "5000"}, "g++ -O2", w.heavy, false},
	} {
		r, err := b.recordCommand(grapher{b.gperf, "dwarf"}, c.opts, c.argv)
		if err != nil {
			return err
		}
		os.Remove(r.file)
		ns := float64(r.bpf.time.Nanoseconds()) / float64(r.bpf.runs)
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%d\t%.0f\t", c.name, c.program, r.samples, r.frames(), r.bpf.runs, ns)
		if c.deeper {
			fmt.Fprintf(tw, "%.1f", (ns-lastNS)/(r.frames()-lastFrames))
		}
		fmt.Fprintln(tw)
		lastNS, lastFrames = ns, r.frames()
	}
	fmt.Printf("\nBPF time, by kernel.bpf_stats_enabled, %s\n", loadAverage())
	return tw.Flush()
}

// slowDown compares a busy program's time alone with the time of the recorded program; the program measures itself.
func (b dwarfPart) slowDown(w *workloads) error {
	calls, err := b.calibrate(w, time.Duration(b.seconds)*time.Second)
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "slow.data")
	defer os.Remove(file)
	defer os.Remove(file + ".old")
	argv := w.deep(20, calls)
	rows := []*row{{tool: tool{"nothing", argv[:1]}, args: argv[1:]}}
	for _, g := range b.graphers("dwarf") {
		opts := []string{"record", "-N", "-B", "-e", "cpu-clock", "-F", "1000", "--call-graph", g.graph,
			"-o", file, "--"}
		rows = append(rows, &row{tool: tool{g.String(), g.argv}, args: append(opts, argv...)})
	}
	turns := 3 * b.runs // the measured difference is smaller than the noise between two runs
	for range turns {
		for _, r := range rows {
			u, err := b.timesItself(r.tool, r.args...)
			if err != nil {
				return err
			}
			r.runs = append(r.runs, u)
		}
	}
	wall, cpu := func(u usage) time.Duration { return u.load }, func(u usage) time.Duration { return u.loadCPU }
	fmt.Printf("\na busy program's own times, under record -e cpu-clock -F 1000, %d runs each in turns, %s\n",
		turns, loadAverage())
	tw := newTable(
		"recorder\twall s: min\tmedian\tmax\tCPU s: min\tmedian\tmax\tslower: wall, medians\tturn by turn\tCPU, " +
			"medians\tturn by turn")
	for _, r := range rows {
		fmt.Fprint(tw, r.tool.name)
		var slower []string
		for _, figure := range []func(usage) time.Duration{wall, cpu} {
			fmt.Fprint(tw, "\t"+spread(r.figures(figure), 3))
			slower = append(slower, fmt.Sprintf("%+.2f %%\t%+.2f %%",
				100*(ratio(r.median(figure), rows[0].median(figure))-1), 100*(turnByTurn(r, rows[0], figure)-1)))
		}
		fmt.Fprintln(tw, "\t"+strings.Join(slower, "\t"))
	}
	return tw.Flush()
}

// turnByTurn returns the median of the ratios within each turn, which varies less with the speed of the machine.
func turnByTurn(r, base *row, figure func(usage) time.Duration) float64 {
	var l []float64
	for i := range r.runs {
		l = append(l, ratio(figure(r.runs[i]), figure(base.runs[i])))
	}
	return median(l)
}

// wholeMachine records the whole machine while compilers run, and measures gperf's memory.
func (b dwarfPart) wholeMachine(w *workloads) error {
	_, err := b.recordAll("record -a -e cpu-clock -F 999, while both compiles run", b.graphers("dwarf"),
		[]string{"-a", "-e", "cpu-clock", "-F", "999"}, w.all, nil)
	return err
}

// tables runs package unwind's own benchmarks of tables; GPERF_ELF names the file they are made for.
func (b dwarfPart) tables(*workloads) error {
	fmt.Printf("\ntables, %s\n", loadAverage())
	cmd := exec.CommandContext(b.ctx, "go", "test", "-run", "^$", "-bench", "Build|Cache", "-benchmem", "./unwind")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Benchmark") || strings.Contains(line, "bench_test.go") {
			fmt.Print(line)
		}
	}
	return nil
}

// readStacks measures script on perf's recordings with stack copies.
func (b dwarfPart) readStacks(w *workloads) error {
	for _, file := range w.stackFiles {
		perfs, samples, err := b.readers(file)
		if err != nil {
			return err
		}
		var rows []*row
		for _, p := range perfs {
			rows = append(rows, &row{tool: p, args: []string{"script", "--no-inline", "-i", file}})
		}
		rows = append(rows, &row{tool: b.gperf, args: []string{"script", "--no-inline", "-i", file}, against: rows})
		if err := b.readRows(file, samples, rows); err != nil {
			return err
		}
	}
	return nil
}
