//go:build unix

package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a file until it is closed. The error is ErrInUse if another process holds the lock.
func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return ErrInUse
	}
	return err
}

// SyncDir makes the names in a directory survive the end of the machine.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
