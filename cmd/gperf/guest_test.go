package main

import (
	"strings"
	"testing"
)

// Marks of callchains, and CPU modes.
const (
	contextUser        = 1<<64 - 512
	contextGuest       = 1<<64 - 2048
	contextGuestKernel = 1<<64 - 2176
	contextGuestUser   = 1<<64 - 2560

	miscUnknown     = 0
	miscHypervisor  = 3
	miscGuestKernel = 4
	miscGuestUser   = 5
)

// TestGuests: samples of virtual machines are left out, as perf leaves them out, and
// never looked up in the host's processes; nor are samples of a hypervisor.
func TestGuests(t *testing.T) {
	const pid = 4_000_130
	r := &recorder{attrs: 1}
	r.comm(pid, "qemu")
	r.mmap(pid, 0x10000000, 0x100000, "/nowhere/qemu")
	for range 3 {
		r.sampleAt(miscUser, pid, 0x10000100, contextUser, 0x10000100, 0x10000200)
	}
	r.sampleAt(miscGuestKernel, pid, 0xffffffff81000100)
	r.sampleAt(miscGuestUser, pid, 0x10000300)
	r.sampleAt(miscGuestKernel, pid, 0xffffffff81000100, contextGuestKernel, 0xffffffff81000100)
	r.sampleAt(miscGuestUser, pid, 0x10000300, contextGuestUser, 0x10000300)
	r.sampleAt(miscUser, pid, 0x10000300, contextUser, 0x10000300, contextGuest, 0x10000500)
	r.sampleAt(miscHypervisor, pid, 0x10000300, contextUser, 0x10000300)
	r.sampleAt(miscUnknown, pid, 0x10000300, contextUser, 0x10000300)
	file := r.save(t)
	asPerf(t, file, "script", "script -F +misc", "script -G", "report", "report --no-children -g none -n",
		"report --show-cpu-utilization -g none", "report --sort comm", "report --stats")

	if diff, _ := gperf(t, "diff", "-s", "comm", file, file); !strings.Contains(diff, "    60.00%     +0.00%  qemu") {
		t.Errorf("diff shows other samples than the host's:\n%s", diff)
	}
	all, _ := gperf(t, "script", "--guest", "-G", "-F", "comm,misc,ip,dso", "-i", file)
	if n := strings.Count(all, "qemu "); n != 10 {
		t.Errorf("--guest shows %d of 10 samples:\n%s", n, all)
	}
	for line := range strings.Lines(all) {
		if ofGuest := strings.ContainsAny(strings.TrimPrefix(line, "qemu"), "Gg"); ofGuest &&
			!strings.Contains(line, "([unknown])") {
			t.Errorf("an address of a guest is looked up in the host: %s", line)
		}
	}
}
