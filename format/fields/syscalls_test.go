package fields

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNames(t *testing.T) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	here := unix.ByteSliceToString(u.Machine[:])
	if runtime.GOARCH == "386" { // numbers of 32-bit programs, also under a kernel for 64-bit ones
		here = "i686"
	}
	for _, c := range []struct {
		machine string
		nr      int64
		want    string
	}{
		{"x86_64", 0, "read"}, {"x86_64", 332, "statx"}, {"x86_64", 257, "openat"}, {"x86_64", 425, "io_uring_setup"},
		{"i686", 3, "read"}, {"aarch64", 63, "read"}, {"aarch64", 56, "openat"}, {"armv7l", 3, "read"}, {"armv7l", 0, "restart_syscall"},
		{"ppc64le", 3, "read"}, {"s390x", 3, "read"}, {"riscv64", 63, "read"}, {"loongarch64", 63, "read"},
		{"x86_64", 400, "400"}, {"x86_64", -1, "-1"}, {"x86_64", 1 << 40, "1099511627776"}, {"pdp11", 1, "1"},
		{"x86_64", CompatSyscall | 4, "write"}, {"x86_64", CompatSyscall | 18, "oldstat"}, {"x86_64", CompatSyscall | 999, "999"},
		{"aarch64", CompatSyscall | 4, "write"}, {"x86_64", x32 | 1, "write"}, {"i686", CompatSyscall | 4, "write"},
		{here, unix.SYS_GETPID, "getpid"}, {here, unix.SYS_FUTEX, "futex"},
	} {
		if got := SyscallsOf(c.machine).Name(c.nr); got != c.want {
			t.Errorf("%s: %d is %s, want %s", c.machine, c.nr, got, c.want)
		}
	}
}
