package procmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reader reads the memory of the process with this PID: of the program that it runs at the time of each read.
type Reader int32

// ReadAt implements io.ReaderAt for the addresses of the process.
func (pid Reader) ReadAt(b []byte, addr int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	n, err := unix.ProcessVMReadv(int(pid), []unix.Iovec{local},
		[]unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	return n, err
}

// ReadEach implements Vector.
func (pid Reader) ReadEach(parts [][]byte, addrs []uint64) (n int) {
	local, remote := make([]unix.Iovec, len(parts)), make([]unix.RemoteIovec, len(parts))
	for i, b := range parts {
		local[i].Base = unsafe.SliceData(b)
		local[i].SetLen(len(b))
		remote[i] = unix.RemoteIovec{Base: uintptr(addrs[i]), Len: len(b)}
	}
	read, _ := unix.ProcessVMReadv(int(pid), local, remote, 0)
	for n < len(parts) && read >= len(parts[n]) {
		read -= len(parts[n])
		n++
	}
	return n
}
