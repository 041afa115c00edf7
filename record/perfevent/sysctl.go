package perfevent

import (
	"os"
	"strconv"
	"strings"
)

// Paranoid returns kernel.perf_event_paranoid, 2 if it cannot be read.
func Paranoid() int { return int(sysctl("/proc/sys/kernel/perf_event_paranoid", 2)) }

// sysctl reads a number, or returns otherwise if it cannot.
func sysctl(path string, otherwise int64) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// MaxFreq is the highest sampling frequency that the kernel allows, in Hz.
func MaxFreq() uint64 {
	return uint64(max(1, sysctl("/proc/sys/kernel/perf_event_max_sample_rate", 100000)))
}

// maxStack is the kernel's limit of frames in a callchain.
func maxStack() int64 { return sysctl("/proc/sys/kernel/perf_event_max_stack", 127) }
