package unwind

import (
	"cmp"
	"debug/elf"
	"slices"
)

// Generated is a function that a process generated, with its .eh_frame.
type Generated struct {
	Start, End uint64 // ips
	EHFrame    []byte
}

// ehFrameAlign is the alignment of the .eh_frame, which jitdumps suppose directly after the code.
const ehFrameAlign = 8

// NewGeneratedCFI returns the CFI of generated code for a machine; its vaddrs are ips. Where code overlaps, the later
// one of the list counts. The error is ErrNoCFI if no code has usable entries.
func NewGeneratedCFI(list []Generated, machine elf.Machine) (*CFI, error) {
	f := &CFI{Machine: machine, abi: abiOf(machine)}
	if f.abi == nil {
		return nil, errMachine
	}
	var code []codeSeg
	for _, c := range Newest(list) {
		f.code = []codeSeg{{c.Start, c.End}}
		addr := (c.End + ehFrameAlign - 1) &^ (ehFrameAlign - 1)
		f.secs = append(f.secs, section{b: c.EHFrame, addr: addr, eh: true, text: c.Start})
		f.scan(uint32(len(f.secs) - 1))
		code = append(code, f.code...)
	}
	f.code = code
	f.order()
	if len(f.fdes) == 0 {
		return nil, ErrNoCFI
	}
	return f, nil
}

// Newest returns the code that no later code overlaps, by address.
func Newest(list []Generated) (kept []Generated) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Start < list[i].End {
			kept = append(kept, list[i])
		}
	}
	slices.SortStableFunc(kept, func(a, b Generated) int { return cmp.Compare(a.Start, b.Start) })
	// Of equal starts, the later one is first now.
	age := make(map[uint64]int, len(list))
	for i := range list {
		age[list[i].Start] = i
	}
	n := 0
	for _, c := range kept {
		for n > 0 && kept[n-1].End > c.Start && age[kept[n-1].Start] < age[c.Start] {
			n-- // c is newer
		}
		if n == 0 || kept[n-1].End <= c.Start {
			kept[n] = c
			n++
		}
	}
	return kept[:n]
}
