package stacks

import (
	"encoding/binary"

	"gperf/bpf"
	"gperf/internal/procmem"
	"gperf/unwind"
)

// Asleep is the user stack of a thread that sleeps.
type Asleep struct {
	regs  *[bpf.NumRegs]uint64 // by DWARF number
	from  uint64               // address of the first byte of stack
	stack []byte
}

// belowSP is how many bytes a frame may use below sp: on arm64, Go saves the frame pointer there.
const belowSP = 16

// ReadAsleep reads up to size bytes of the stack of a thread of a process, with the thread's registers.
func ReadAsleep(pid uint32, regs *[bpf.NumRegs]uint64, size int) Asleep {
	r := unwind.AllRegs(machine, regs[:])
	from := r.SP() - belowSP
	b := make([]byte, size)
	n, _ := procmem.Reader(pid).ReadAt(b, int64(from)) // up to the first page that cannot be read
	return Asleep{regs, from, b[:max(0, n)&^7]}
}

// Copy returns the data of the stack for [Merged.Join] with a Head whose End is Copy, and the number of bytes of
// stack in the data.
func (a *Asleep) Copy() (data []byte, stack uint32) {
	return bpf.AppendCopy(nil, a.regs, a.from, a.stack), uint32(len(a.stack))
}

// Callers returns the ip and the callers by frame pointers, 8 bytes each.
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

// CopiedIP returns the ip in the data of a copy of a stack, 8 bytes; nil if that is too short.
func CopiedIP(data []byte) []byte {
	if len(data) < 8*bpf.NumRegs {
		return nil
	}
	regs := copiedRegs(data)
	return binary.LittleEndian.AppendUint64(nil, regs.IP())
}
