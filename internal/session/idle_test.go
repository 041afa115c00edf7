package session

import (
	"testing"

	"gperf/format"
	"gperf/symbolize"
)

func TestIdle(t *testing.T) {
	s := newSession()
	s.File.Attrs = []format.Attr{
		{Type: format.TypeSoftware, Config: format.SWCPUClock},
		{Type: format.TypeHardware},
		{Type: format.TypeTracepoint},
		{Type: format.TypeSoftware, Config: 3}, // context switches
		{Type: 9},                              // of a PMU
	}
	const (
		clock, cycles, tracepoint, switches, pmu = 0, 1, 2, 3, 4
		kernel, user                             = format.MiscKernel, format.MiscUser
	)
	for _, c := range []struct {
		name     string
		event    int
		pid      int32
		misc     format.Misc
		function string
		want     bool
	}{
		{"clock", clock, 0, kernel, "pv_native_safe_halt", true},
		{"cycles", cycles, 0, kernel, "intel_idle_irq", true},
		{"a PMU's event", pmu, 0, kernel, "mwait_idle_with_hints.constprop.0", true},
		{"interrupt", clock, 0, kernel, "handle_softirqs", false},
		{"search for an idle CPU", clock, 0, kernel, "select_idle_sibling", false},
		{"another process", clock, 7, kernel, "pv_native_safe_halt", false},
		{"user space", clock, 0, user, "default_idle", false},
		{"a dropped packet", tracepoint, 0, kernel, "default_idle", false},
		{"context switch", switches, 0, kernel, "do_idle", false},
		{"no name", clock, 0, kernel, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample := &Sample{Sample: format.Sample{Event: c.event, PID: c.pid, TID: c.pid, Misc: c.misc}}
			var sym *symbolize.Symbol
			if c.function != "" {
				sym = &symbolize.Symbol{Name: c.function}
			}
			sample.Leaf = NamedFrame(0, 0, true, nil, sym)
			if got := s.Idle(sample); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	if s.Unnamed != 1 {
		t.Errorf("%d samples without names, want 1", s.Unnamed)
	}
}
