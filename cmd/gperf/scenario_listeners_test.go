package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loadPrograms loads and unloads small BPF programs until done is closed, and returns how many.
func loadPrograms(t *testing.T, done <-chan struct{}) (n int) {
	// The kernel gets addresses as numbers, so the memory there must not move, as stacks of goroutines do.
	var pinned runtime.Pinner
	defer pinned.Unpin()
	code := &[...]uint64{0xb7, 0x95} // r0 = 0; exit
	license := &[...]byte{'G', 'P', 'L', 0}
	pinned.Pin(code)
	pinned.Pin(license)
	type attr struct {
		typ, count    uint32
		code, license uint64
		log           [4]uint32
		_, _          uint32
		name          [16]byte
		_             [64]byte
	}
	a := attr{typ: 1, count: 2, code: uint64(uintptr(unsafe.Pointer(code))),
		license: uint64(uintptr(unsafe.Pointer(license)))} // a socket filter
	for {
		select {
		case <-done:
			return n
		case <-time.After(5 * time.Millisecond):
		}
		copy(a.name[:], fmt.Sprintf("p%0*d", n%12, n))
		fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
		switch {
		case errno == unix.EAGAIN: // a signal interrupted the verifier
			continue
		case errno != 0:
			t.Errorf("loading a BPF program: %v", errno)
			return n
		}
		unix.Close(int(fd))
		n++
	}
}

// Several recorders get the same side band, while BPF programs come and go. Each file contains records of the right
// size, in order: gperf warns of nothing, and perf reads them. GPERF_LISTEN is the duration, for longer trials.
func TestScenarioListeners(t *testing.T) {
	needTracepoints(t)
	program, dir := binary(t, "./cmd/gperf"), t.TempDir()
	seconds := os.Getenv("GPERF_LISTEN")
	if seconds == "" {
		seconds = "2"
	}
	flags := [][]string{{"-a"}, {"-a", "-g"}, {"-a", "--no-buildid-mmap"}}
	done := make(chan struct{})
	loaded := make(chan int)
	go func() { loaded <- loadPrograms(t, done) }()
	var wg sync.WaitGroup
	for i, f := range flags {
		wg.Go(func() {
			args := append([]string{"record", "-F", "99", "-o", filepath.Join(dir, fmt.Sprint(i))}, f...)
			const busy = "end=$(($(date +%s) + $0)); while [ $(date +%s) -lt $end ]; do sleep .05; done"
			out, err := exec.Command(program, append(args, "--", "sh", "-c", busy, seconds)...).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v\n%s", f, err, out)
			}
		})
	}
	wg.Wait()
	close(done)
	if n := <-loaded; n < 100 {
		t.Fatalf("only %d BPF programs were loaded", n)
	}
	for i, f := range flags {
		file := filepath.Join(dir, fmt.Sprint(i))
		for _, args := range [][]string{{"report", "--stdio"}, {"script", "--show-bpf-events"}} {
			out, stderr := gperf(t, append(args, "-i", file)...)
			for _, word := range []string{"too late", "too short", "skipped", "damaged"} {
				if strings.Contains(stderr, word) {
					t.Errorf("%v: %v warns:\n%s", f, args, stderr)
				}
			}
			if args[0] == "script" && strings.Count(out, "PERF_RECORD_KSYMBOL") < 100 {
				t.Errorf("%v: %d symbols", f, strings.Count(out, "PERF_RECORD_KSYMBOL"))
			}
		}
		perf, err := findOracle()
		if err != nil {
			continue
		}
		for _, args := range [][]string{{"report", "--stdio"}, {"script", "--show-mmap-events", "--show-bpf-events"}} {
			cmd := exec.Command(perf.command[0], append(append(perf.command[1:], args...), "-i", file)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil || strings.Contains(stderr.String(), "Bad address") ||
				strings.Contains(stderr.String(), "out of order") {
				t.Errorf("%v: perf %v: %v\n%s", f, args, err, stderr.String())
			}
		}
	}
}
