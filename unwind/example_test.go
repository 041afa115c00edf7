package unwind_test

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"gperf/unwind"
)

// program is the address space of a process with one mapping of code, which has no CFI.
type program struct{ mapping unwind.Mapping }

func (p *program) Mapping(ip uint64) *unwind.Mapping {
	if ip < p.mapping.Start || ip >= p.mapping.End {
		return nil
	}
	return &p.mapping
}

// Walk a stack by frame pointers. Each is the address of the caller's frame pointer; the return address follows.
func Example() {
	const sp = 0x7ffe0000
	stack := unwind.Stack{Addr: sp}
	for _, word := range []uint64{sp + 16, 0x401200, 0, 0x401100} {
		stack.Bytes = binary.LittleEndian.AppendUint64(stack.Bytes, word)
	}
	space := &program{unwind.Mapping{Start: 0x401000, End: 0x402000}}
	regs := unwind.NewRegs(elf.EM_X86_64, 0x401300, sp, sp)
	var u unwind.Unwinder
	frames, why := u.Walk(nil, &regs, &stack, space)
	for _, f := range frames {
		fmt.Printf("%#x return address: %v\n", f.IP, f.Return)
	}
	fmt.Println(why)
	// Output:
	// 0x401300 return address: false
	// 0x401200 return address: true
	// 0x401100 return address: true
	// return address 0
}
