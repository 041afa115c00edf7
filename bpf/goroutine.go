package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// goroutinePlaces are the functions of Go's runtime at which programs run.
var goroutinePlaces = []struct {
	program string
	at      func(*GoProgram) uint64
}{
	{"on_execute", func(g *GoProgram) uint64 { return g.Execute }},
	{"on_ready", func(g *GoProgram) uint64 { return g.Ready }},
	{"on_injectglist", func(g *GoProgram) uint64 { return g.InjectGList }},
	{"on_gopark", func(g *GoProgram) uint64 { return g.GoPark }},
	{"on_yield", func(g *GoProgram) uint64 { return g.GoSched }},
	{"on_yield", func(g *GoProgram) uint64 { return g.ExitSyscall }},
}

// attachGoroutines attaches the programs of goroutines to a program of Go.
func (p *OffCPU) attachGoroutines(g *GoProgram) error {
	file, err := link.OpenExecutable(g.Path)
	if err != nil {
		return err
	}
	var cookie uint64
	if haveCookies() {
		cookie = g.GoID | g.BP<<16
	}
	for _, place := range goroutinePlaces {
		l, err := file.Uprobe("", p.coll.Programs[place.program],
			&link.UprobeOptions{Address: place.at(g), Cookie: cookie})
		if err != nil {
			return fmt.Errorf("attaching a BPF program to %s: %w", g.Path, err)
		}
		p.links = append(p.links, l)
	}
	return nil
}

// appendParked appends the waits of goroutines that have not ended: they last until now, or until their process ended.
// Those of processes whose end is not known any more are left out.
func (p *OffCPU) appendParked(l []Wait, now uint64) ([]Wait, error) {
	var key offcpuGoroutineKey
	var raw offcpuWait
	parked := p.coll.Maps["parked"].Iterate()
	for parked.Next(&key, &raw) {
		end, alive, err := p.endOf(raw.Pid, key.Tgid)
		if err != nil {
			return nil, err
		}
		if alive {
			end = now
		}
		if w := waitOf(&raw); w.Start < end {
			w.Duration = end - w.Start
			l = append(l, w)
		}
	}
	if err := parked.Err(); err != nil {
		return nil, fmt.Errorf("reading the waits of goroutines that have not ended: %w", err)
	}
	return l, nil
}

// endOf returns when a process ended, by CLOCK_MONOTONIC in ns, 0 if that is unknown. pid is the process in this
// process's PID namespace, tgid the same in the initial one.
func (p *OffCPU) endOf(pid, tgid uint32) (end uint64, alive bool, err error) {
	if unix.Kill(int(pid), 0) != unix.ESRCH {
		return 0, true, nil
	}
	err = p.coll.Maps["exits"].Lookup(tgid, &end)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, fmt.Errorf("reading when processes ended: %w", err)
	}
	return end, false, nil
}
