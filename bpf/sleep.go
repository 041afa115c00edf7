package bpf

import (
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Sleeper is where a thread sleeps.
type Sleeper struct {
	PID, TID uint32
	Kernel   []byte // ips, 8 bytes each
	// Head is the Head of a copy without stack, if the thread has registers of user mode; else Head.End is
	// EndNoUser or, for a 32-bit program, EndCompat.
	Head Head
	Regs [NumRegs]uint64 // of user mode, by DWARF number
}

// Sleepers returns where threads sleep. Threads that ended are left out.
func (p *OffCPU) Sleepers(tids []uint32) ([]Sleeper, error) {
	spec, err := loadSleep()
	if err != nil {
		return nil, err
	}
	asked := spec.Maps["asked"]
	asked.MaxEntries = uint32(max(1, len(tids)))
	for _, tid := range tids {
		asked.Contents = append(asked.Contents, ebpf.MapKV{Key: tid, Value: uint8(1)})
	}
	coll, err := newLoader(nil, nil).load(spec, map[string]any{"level": p.control.level}, "write_sleeper")
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	it, err := link.AttachIter(link.IterOptions{Program: coll.Programs["write_sleeper"]})
	if err != nil {
		return nil, fmt.Errorf("attaching a BPF program to the list of tasks: %w", err)
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return nil, fmt.Errorf("opening the list of tasks: %w", err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the list of tasks: %w", err)
	}
	return parseSleepers(b), nil
}

// parseSleepers parses the program's output.
func parseSleepers(b []byte) (l []Sleeper) {
	const size = int(unsafe.Sizeof(sleepSleeper{}))
	for ; len(b) >= size; b = b[size:] {
		var raw sleepSleeper
		if _, err := binary.Decode(b[:size], binary.LittleEndian, &raw); err != nil {
			return l
		}
		frames := b[size-int(unsafe.Sizeof(raw.Frames)) : size]
		s := Sleeper{PID: raw.Pid, TID: raw.Tid, Kernel: frames[:8*min(int(raw.Kernel), len(raw.Frames))],
			Head: Head{End: EndNoUser, TGID: raw.Tgid, Exec: raw.Exec}, Regs: raw.Regs}
		switch raw.Mode {
		case sleepModeUSER_64:
			s.Head.End, s.Head.Copy = EndNoProcess, true
		case sleepModeUSER_32:
			s.Head.End = EndCompat
		}
		l = append(l, s)
	}
	return l
}

// AppendCopy appends the data of a copy of a stack: the registers, and the stack's bytes from an address on.
func AppendCopy(b []byte, regs *[NumRegs]uint64, from uint64, stack []byte) []byte {
	le := binary.LittleEndian
	for _, r := range regs {
		b = le.AppendUint64(b, r)
	}
	b = le.AppendUint64(b, regs[NumRegs-1]) // the address whose table is missing
	return append(le.AppendUint64(b, from), stack...)
}
