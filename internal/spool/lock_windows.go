package spool

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks a file until it is closed. The error is ErrInUse if another process holds the lock.
func tryLock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return ErrInUse
	}
	return err
}

// SyncDir does nothing: Windows does not write single directories to disk.
func SyncDir(string) error { return nil }
