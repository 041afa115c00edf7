package bpf

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf"
)

// control is the switch that all programs of a recording read (control.h).
type control struct {
	m        *ebpf.Map
	recorder uint32 // this process, as the kernel numbers it
	level    uint32 // of the recorder's PID namespace
	on       bool
	paused   uint32 // number of paused events
}

// newControl returns the switch, turned off. identify is the program that finds the
// recorder's tgid.
func newControl(m *ebpf.Map, identify *ebpf.Program) (*control, error) {
	c := &control{m: m, recorder: uint32(os.Getpid())}
	// Before Linux 5.10 no program can be run this way: then our own pid is right outside of
	// PID namespaces.
	if _, err := identify.Run(&ebpf.RunOptions{}); err == nil {
		var v unwindControlValue
		if err := m.Lookup(uint32(0), &v); err != nil {
			return nil, fmt.Errorf("cannot identify the recorder's process: %w", err)
		}
		c.recorder, c.level = v.Recorder, v.Level
	}
	return c, c.set(false)
}

func (c *control) set(on bool) error {
	c.on = on
	v := unwindControlValue{On: flag(on), Recorder: c.recorder, Level: c.level, Paused: c.paused}
	if err := c.m.Put(uint32(0), v); err != nil {
		return fmt.Errorf("cannot switch the BPF programs: %w", err)
	}
	return nil
}
