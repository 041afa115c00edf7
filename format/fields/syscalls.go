// This file names system calls by their numbers.

package fields

import (
	"iter"
	"strconv"
	"strings"
)

//go:generate go run generate.go

// CompatSyscall is the bit of a number that means the table of 32-bit programs, which a 64-bit kernel has as well.
// gperf sets it: the kernel's events have the numbers alone.
const CompatSyscall = 1 << 32

// x32 is the bit of the kernel's numbers for programs with 64-bit registers and 32-bit pointers.
const x32 = 1 << 30

// SyscallTable contains the names of an architecture's system calls.
type SyscallTable struct{ own, compat []string }

// compats are the architectures of the 32-bit programs that kernels of others run.
var compats = map[string]string{"x86_64": "i386", "aarch64": "arm"}

// SyscallsOf returns the system calls of an architecture (uname -m), none if it is unknown.
func SyscallsOf(machine string) SyscallTable {
	switch {
	case strings.HasPrefix(machine, "armv"):
		machine = "arm"
	case len(machine) == 4 && strings.HasSuffix(machine, "86"): // i686
		machine = "i386"
	case machine == "ppc64le":
		machine = "ppc64"
	}
	return SyscallTable{names(machine), names(compats[machine])}
}

// names returns the names of an architecture's table by number.
func names(machine string) (n []string) {
	for word := range strings.FieldsSeq(tables[machine]) {
		if nr, err := strconv.Atoi(word); err == nil {
			for len(n) < nr {
				n = append(n, "")
			}
			continue
		}
		n = append(n, word)
	}
	return n
}

// Name returns the name of a system call, or its number if it has no name.
func (t SyscallTable) Name(nr int64) string {
	names := t.own
	switch {
	case nr < 0:
	case nr&CompatSyscall != 0:
		if nr &^= CompatSyscall; t.compat != nil {
			names = t.compat
		}
	case t.compat != nil:
		nr &^= x32
	}
	if nr >= 0 && nr < int64(len(names)) && names[nr] != "" {
		return names[nr]
	}
	return strconv.FormatInt(nr, 10)
}

// All yields the numbers and names, first the architecture's own ones.
func (t SyscallTable) All() iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		for bit, names := range [...][]string{t.own, t.compat} {
			for nr, name := range names {
				if name != "" && !yield(int64(nr)|int64(bit)*CompatSyscall, name) {
					return
				}
			}
		}
	}
}

// Numbers returns the numbers of the system calls of this name.
func (t SyscallTable) Numbers(name string) (l []int64) {
	for nr, n := range t.All() {
		if n == name {
			l = append(l, nr)
		}
	}
	return l
}
