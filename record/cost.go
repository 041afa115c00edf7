package record

import (
	"io"
	"os"
	"time"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/procfs"
)

// meter measures what a recording takes of its machine.
type meter struct {
	opts    *plan
	began   time.Time
	start   time.Duration // CPU time until then
	running io.Closer     // while run times of BPF programs are measured
}

// begin begins to measure, once events are enabled.
func (m *meter) begin() {
	m.began, m.start = time.Now(), cpuTime()
	if !m.opts.MeasureCost {
		return
	}
	var err error
	if m.running, err = bpf.MeasureRunTimes(); err != nil {
		m.opts.verbose("the time of BPF programs is not measured: " + err.Error())
	}
}

// cost returns what the recording took until now.
func (m *meter) cost(lost uint64) format.Cost {
	c := format.Cost{Start: cpuTime(), Lost: lost}
	if !m.began.IsZero() { // else it did not begin
		c.Start, c.CPU, c.Wall = m.start, c.Start-m.start, time.Since(m.began)
	}
	if st, err := procfs.StatusOf(os.Getpid()); err == nil {
		c.Memory = st.MaxResident
	}
	if m.running == nil {
		return c
	}
	l, err := bpf.RunTimes()
	if err != nil {
		m.opts.verbose("the time of BPF programs: " + err.Error())
	}
	for _, r := range l {
		c.Programs = append(c.Programs, format.ProgramCost(r))
	}
	return c
}

func (m *meter) close() {
	if m.running != nil {
		m.running.Close()
	}
}
