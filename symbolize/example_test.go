package symbolize_test

import (
	"fmt"

	"gperf/internal/dso"
	"gperf/symbolize"
)

// Name an address of a recorded kernel that ran at another address than its symbols.
func Example() {
	symbols := symbolize.New(symbolize.Options{
		Locator:       &dso.Locator{Tree: dso.Tree{Root: "/nowhere"}},
		Kallsyms:      "../testdata/kallsyms",
		KernelRef:     "_text",
		KernelRefAddr: 0xffffffff91000000, // the kernel was 0x10000000 above the addresses of its symbols
	})
	defer symbols.Close()
	for _, ip := range []uint64{0xffffffff9203cf94, 0xffffffff90000000} {
		sym, offset, module, why := symbols.Kernel(ip)
		if why != symbolize.Found {
			fmt.Printf("%#x: %v\n", ip, why)
			continue
		}
		fmt.Printf("%#x: %s+%#x%s\n", ip, sym.Name, offset, module)
	}
	// Output:
	// 0xffffffff9203cf94: udp_send_skb+0x4
	// 0xffffffff90000000: no symbol at the address
}
