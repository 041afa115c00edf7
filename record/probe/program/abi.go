package program

import (
	"debug/elf"
	"runtime"

	"gperf/internal/dso"
)

// abi distinguishes programs whose libraries differ: the class separates x32 from x86-64.
// The zero value is any ABI.
type abi struct {
	machine elf.Machine
	class   elf.Class
}

// ldFlags are the ABI bits of the flags in ld.so.cache (glibc's sysdeps/generic/ldconfig.h). On ARM there are two
// ABIs for one machine and class.
var ldFlags = map[abi]uint32{
	{elf.EM_X86_64, elf.ELFCLASS64}:  0x0300,
	{elf.EM_X86_64, elf.ELFCLASS32}:  0x0800, // x32
	{elf.EM_386, elf.ELFCLASS32}:     0,
	{elf.EM_AARCH64, elf.ELFCLASS64}: 0x0a00,
}

// native is the ABI of most programs of this machine.
func native() abi {
	for _, m := range machines[runtime.GOARCH] {
		return abi{m, elf.ELFCLASS64}
	}
	return abi{}
}

func abiOf(im *dso.Image) abi {
	if im.Is64 {
		return abi{im.Machine, elf.ELFCLASS64}
	}
	return abi{im.Machine, elf.ELFCLASS32}
}

// abiAt returns the ABI of the program at path: this machine's, if the file cannot be read.
func abiAt(path string) abi {
	im, err := dso.Open(path)
	if err != nil {
		return native()
	}
	defer im.Close()
	return abiOf(im)
}
