//go:build !amd64 && !arm64

package bpf

import "github.com/cilium/ebpf"

// No programs are compiled for this architecture. The types of the data that programs and this package exchange are
// declared as bpf2go declares them.

func loadUnwind() (*ebpf.CollectionSpec, error)  { return nil, ErrNoPrograms }
func loadEmit() (*ebpf.CollectionSpec, error)    { return nil, ErrNoPrograms }
func loadSpan() (*ebpf.CollectionSpec, error)    { return nil, ErrNoPrograms }
func loadOffcpu() (*ebpf.CollectionSpec, error)  { return nil, ErrNoPrograms }
func loadCount() (*ebpf.CollectionSpec, error)   { return nil, ErrNoPrograms }
func loadVerdict() (*ebpf.CollectionSpec, error) { return nil, ErrNoPrograms }
func loadSleep() (*ebpf.CollectionSpec, error)   { return nil, ErrNoPrograms }

type (
	unwindHead         struct{ End, Tgid, Exec, Frames, Stack, Interpreted, Generation uint32 }
	unwindControlValue struct{ On, Recorder, Level, Paused uint32 }
	unwindCopyRoom     struct {
		Room, Low int64
		Woken     uint64
	}
	unwindCopyHead struct {
		Regs     [17]uint64
		At, From uint64
	}
	unwindMapping struct {
		Start, End, Bias uint64
		Table, Zero      uint32
	}
	unwindFileKey struct {
		Inode, Off     uint64
		Changed        int64
		ChangedNs, Dev uint32
	}
	unwindFileTable struct {
		Bias        uint64
		Table, Zero uint32
	}
	unwindProcess struct{ Exec, First, N, Copies, Runtime, Stale uint32 }
	unwindTable   struct {
		Base                         uint64
		Pages, NumPages, Rules, Used uint32
		Entry, Serial                uint64
	}
	offcpuSum          struct{ Duration, Waits uint64 }
	offcpuGoroutineKey struct {
		G            uint64
		Tgid, Unused uint32
	}
	offcpuSumKey struct {
		Stack, Goroutine                      uint64
		Pid, Tid, Tgid, End, Runnable, Unused uint32
		Waker                                 offcpuWaker
	}
	offcpuWait struct {
		Start, Woken, Duration, CpuTime, Since, Stack, Goroutine uint64
		Pid, Tid, Tgid, Exec, End, Copied                        uint32
		Waker                                                    offcpuWaker
	}
	offcpuWaker struct {
		Stack                            uint64
		Known, Pid, Tid, Tgid, Exec, End uint32
		Comm                             [16]int8
	}
	countCountKey struct {
		Stack              uint64
		Tgid, Thread, Exec uint32
		Event, End         uint16
	}
	countCount struct {
		Key           countCountKey
		Weight, First uint64
		Pid, Tid      uint32
	}
	sleepMode    uint32
	sleepSleeper struct {
		Pid, Tid, Tgid, Exec uint32
		Mode                 sleepMode
		Kernel               uint32
		Regs                 [17]uint64
		Frames               [128]uint64
	}
)

const (
	sleepModeUSER_64 sleepMode = 1
	sleepModeUSER_32 sleepMode = 2
)
