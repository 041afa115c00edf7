package untrusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Rights of Landlock (linux/landlock.h).
const (
	toWrite  = syscall.AccessFSWriteFile | syscall.AccessFSTruncate // a file
	toChange = toWrite | syscall.AccessFSRemoveDir | syscall.AccessFSRemoveFile | syscall.AccessFSMakeChar |
		syscall.AccessFSMakeDir | syscall.AccessFSMakeReg | syscall.AccessFSMakeSock | syscall.AccessFSMakeFifo |
		syscall.AccessFSMakeBlock | syscall.AccessFSMakeSym // a directory
	toStart = syscall.AccessFSExecute // a program
)

// CanConfine reports whether the kernel supports Landlock (from 5.13, if it is configured).
func CanConfine() bool {
	_, err := syscall.LandlockGetABIVersion()
	return err == nil
}

// Confine takes rights from this process and those that it starts, for good. They can change files only in the
// directories, and write to the files, of changes; start only programs; send signals only to each other; and get no
// rights from programs that they start. The kernel hides other processes' memory and files below /proc/PID/root from
// them, too. Paths that do not exist are ignored. Kernels from 6.12 enforce all of these limits; older kernels enforce
// only some.
func Confine(changes, programs []string) error {
	config := landlock.Config{HandledAccessFS: toChange | toStart, Scoped: syscall.ScopeSignal}
	rules := []landlock.Rule{landlock.PathAccess(toStart, programs...).IgnoreIfMissing()}
	for _, path := range changes {
		st, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("giving up rights: %w", err)
		case st.IsDir():
			rules = append(rules, landlock.PathAccess(toChange, path))
		default:
			rules = append(rules, landlock.PathAccess(toWrite, path))
		}
	}
	if err := config.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("giving up rights: %w", err)
	}
	return nil
}
