package record

import (
	"debug/elf"
	"fmt"

	"golang.org/x/sys/unix"

	"gperf/bpf"
)

// How much memory the recorder must be allowed, in bytes. With less than leastMemory, the kernel would end the
// recorder while it builds the unwind table of a compiler, which takes half of it. With less than smallMemory, all
// tables together take an eighth, and building them keeps nothing else.
const (
	leastMemory = 96 << 20
	smallMemory = 256 << 20
)

// rowsWithin returns the number of rows of unwind tables for a process that may use this many bytes of memory.
func rowsWithin(limit uint64) uint32 { return uint32(min(limit/8/bpf.RowSize, bpf.MaxRows)) }

// SmallMemoryError says that the recorder may use too little memory for unwind tables.
type SmallMemoryError struct{ Limit uint64 } // in bytes

func (e *SmallMemoryError) Error() string {
	return fmt.Sprintf("gperf's limit allows %d MB of memory, unwind tables need %d MB", e.Limit>>20, leastMemory>>20)
}

// Hint says how to allow more memory, or to record without unwind tables.
func (e *SmallMemoryError) Hint() string {
	return "Allow more (memory.max of its cgroup, ulimit -v); --call-graph fp records the same without this message.\n"
}

// unmapCode removes the pages of the program's file from this process's memory, as the kernel does under pressure. Most
// are needed for the start alone: BPF programs, flags, the verifier's log. Those that are used again come from the page
// cache. Segments that may be written have other contents than the file.
func unmapCode() {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC { // other programs are at other addresses
		return
	}
	page := uint64(unix.Getpagesize())
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			start, end := p.Vaddr&^(page-1), (p.Vaddr+p.Filesz)&^(page-1)
			unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
