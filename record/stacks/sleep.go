package stacks

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/unwind"
)

// Asleep is the user stack of a thread that sleeps.
type Asleep struct {
	regs  *[bpf.NumRegs]uint64 // by DWARF number
	from  uint64               // address of the first byte of stack
	stack []byte
}

// maxAsleep is how many bytes of a sleeping thread's stack are read: as many as the programs copy.
const maxAsleep = 0xf000

// belowSP is how many bytes a frame may use below sp: on arm64, Go saves the frame pointer there.
const belowSP = 16

// ReadAsleep reads the stack of a thread of a process, with the thread's registers.
func ReadAsleep(pid uint32, regs *[bpf.NumRegs]uint64) Asleep {
	r := unwind.AllRegs(machine, regs[:])
	from := r.SP() - belowSP
	return Asleep{regs, from, readPages(int(pid), from, maxAsleep)}
}

// Copy returns the data of the stack for [Merged.Join] with a Head that says Copy, and how many bytes of stack it has.
func (a *Asleep) Copy() (data []byte, stack uint32) {
	return bpf.AppendCopy(nil, a.regs, a.from, a.stack), uint32(len(a.stack))
}

// Callers returns the ip and its callers by frame pointers, 8 bytes each.
func (a *Asleep) Callers() (ips []byte) {
	le := binary.LittleEndian
	r := unwind.AllRegs(machine, a.regs[:])
	ips = le.AppendUint64(ips, r.IP())
	for fp, least := r.FP(), r.SP(); fp >= least && fp&7 == 0; {
		at := fp - a.from
		if at+16 > uint64(len(a.stack)) {
			break
		}
		ip := le.Uint64(a.stack[at+8:])
		if ip == 0 {
			break
		}
		ips = le.AppendUint64(ips, ip)
		fp, least = le.Uint64(a.stack[at:]), fp+16
	}
	return ips
}

// readPages reads the memory of a process from an address on, up to the first page that cannot be read. It returns
// whole words.
func readPages(pid int, addr uint64, size int) []byte {
	b := make([]byte, size)
	to := unix.Iovec{Base: &b[0]}
	to.SetLen(size)
	var from []unix.RemoteIovec
	page := os.Getpagesize()
	for at := 0; at < size; {
		n := min(size-at, page-int(addr+uint64(at))&(page-1))
		from = append(from, unix.RemoteIovec{Base: uintptr(addr) + uintptr(at), Len: n})
		at += n
	}
	n, err := unix.ProcessVMReadv(pid, []unix.Iovec{to}, from, 0)
	if err != nil {
		return nil
	}
	return b[:n&^7]
}
