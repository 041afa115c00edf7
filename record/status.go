package record

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"

	"gperf/format"
)

// Status is the state of a recording that goes on.
type Status struct {
	Elapsed time.Duration
	Samples uint64
	Bytes   int64  // of all files
	Lost    uint64 // records, as far as the kernel has reported it
	Path    string // of the open file
	// Quiet reports that no command has written anything yet, to the terminal or elsewhere.
	Quiet bool
	// Cost returns what the recording took until now. With Options.MeasureCost it reads a file for each counter.
	Cost func() format.Cost
}

// statusEvery is the time between two calls of Options.Status.
const statusEvery = time.Second

// reporter calls Options.Status.
type reporter struct {
	opts        *plan
	file        *file
	command     *command // nil without one
	start, last time.Time
	written     uint64 // by the process that executes the command, before that
	talks       bool   // the command has written more
}

func (r *reporter) begin() {
	r.start, r.last = time.Now(), time.Now()
	if r.command != nil {
		r.written, r.talks = written(r.command.proc.Pid)
	}
}

// check reports the status if it is time.
func (r *reporter) check() {
	now := time.Now()
	if r.opts.Status == nil || now.Sub(r.last) < statusEvery {
		return
	}
	r.last = now
	if r.command != nil && !r.talks {
		n, unknown := written(r.command.proc.Pid)
		r.talks = unknown || n != r.written
	}
	f := r.file
	cost := func() format.Cost { return f.meter.cost(f.sum.Lost) }
	r.opts.Status(Status{Cost: cost, Elapsed: now.Sub(r.start), Samples: f.sum.Samples + f.tally.Samples,
		Bytes: f.sum.Bytes + f.out.Size(), Lost: f.tally.Lost, Path: cmp.Or(f.out.Path(), f.sum.Path), Quiet: !r.talks})
}

// written returns how many bytes a process and its children that have exited have written, to any file.
func written(pid int) (n uint64, unknown bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, true
	}
	_, b, _ = bytes.Cut(b, []byte("wchar: "))
	line, _, _ := bytes.Cut(b, []byte("\n"))
	n, err = strconv.ParseUint(string(line), 10, 64)
	return n, err != nil
}
