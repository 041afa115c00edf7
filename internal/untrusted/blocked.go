package untrusted

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gperf/internal/text"
)

// ErrBlocked means that a file's file system does not answer: its server has died, or stops readers on purpose.
var ErrBlocked = errors.New("its file system does not answer")

// patience is how long one call may sleep in the kernel. After that, all calls on this file system fail with ErrBlocked
// until that call returns. A call that does not sleep takes as long as it needs: the machine may be busy.
var patience = 2 * time.Second

// looks is how often a call is looked at in that time.
const looks = 4

// maxBlocked limits the calls that wait at once, each of which holds a thread.
const maxBlocked = 64

// blocked holds the calls that took longer than patience.
var blocked struct {
	sync.Mutex
	calls map[string]int // how many wait, by the key of the file system or of the path
	names []string       // of all that did not answer so far
	said  int            // how many of names NoAnswer returned
}

// within returns the result of a call on the file at path, or ErrBlocked. drop gets a result that comes too late.
func within[T any](path string, call func() (T, error), drop func(T)) (result T, err error) {
	if isBlocked(path) {
		return result, ErrBlocked
	}
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 1)
	var thread atomic.Int32 // that makes the call, 0 before it does
	go func() {
		runtime.LockOSThread()
		thread.Store(threadID())
		result, err := call()
		runtime.UnlockOSThread()
		answers <- answer{result, err}
	}()
	look := time.NewTicker(patience / looks)
	defer look.Stop()
	last := ""
	for same := 0; same < looks; {
		select {
		case a := <-answers:
			return a.result, a.err
		case <-look.C:
		}
		now := sleepOf(thread.Load())
		if now != last {
			same, last = 0, now
		}
		if now != "" {
			same++
		}
	}
	release := block(path)
	go func() {
		if a := <-answers; a.err == nil {
			drop(a.result)
		}
		release()
	}()
	return result, ErrBlocked
}

// Reader returns a reader of an open file. If another machine or program serves the file's file system, calls fail with
// ErrBlocked if it does not answer, and the reader is no *os.File, as a file that is mapped into memory would make the
// process wait.
func Reader(file *os.File) io.ReaderAt {
	remote, err := within(file.Name(), func() (bool, error) { return isRemote(file), nil }, func(bool) {})
	if err != nil || remote {
		return remoteFile{file}
	}
	return file
}

// remoteFile is a file that a server has.
type remoteFile struct{ file *os.File }

func (f remoteFile) ReadAt(b []byte, off int64) (int, error) {
	type result struct {
		b   []byte
		err error
	}
	r, err := within(f.file.Name(), func() (result, error) {
		own := make([]byte, len(b)) // a late call must not write to the caller's
		n, err := f.file.ReadAt(own, off)
		return result{own[:n], err}, nil
	}, func(result) {})
	if err != nil {
		return 0, pathError(f.file.Name(), err)
	}
	return copy(b, r.b), r.err
}

// isBlocked reports whether an earlier call on the file at path, or on its file system, still waits.
func isBlocked(path string) bool {
	blocked.Lock()
	defer blocked.Unlock()
	if len(blocked.calls) == 0 {
		return false
	}
	waiting := 0
	for _, n := range blocked.calls {
		waiting += n
	}
	_, same := blocked.calls[path]
	if same || waiting >= maxBlocked {
		return true
	}
	key, _ := fileSystem(path)
	return blocked.calls[key] > 0
}

// block notes a call that waits, until it calls release.
func block(path string) (release func()) {
	key, name := fileSystem(path)
	if key == "" {
		key, name = path, path
	}
	blocked.Lock()
	defer blocked.Unlock()
	if blocked.calls == nil {
		blocked.calls = map[string]int{}
	}
	blocked.calls[key]++
	if !slices.Contains(blocked.names, name) {
		blocked.names = append(blocked.names, name)
	}
	return func() {
		blocked.Lock()
		defer blocked.Unlock()
		if blocked.calls[key]--; blocked.calls[key] == 0 {
			delete(blocked.calls, key)
		}
	}
}

// maxNames limits how many file systems a message names.
const maxNames = 5

// NoAnswer returns an error that names the mount points, or the files, that did not answer since the last call, or nil.
// Each is named once.
func NoAnswer() error {
	blocked.Lock()
	defer blocked.Unlock()
	l := blocked.names[blocked.said:]
	if len(l) == 0 {
		return nil
	}
	blocked.said = len(blocked.names)
	return fmt.Errorf("%s: the file system does not answer, so programs there lack build IDs, whole stacks or names: "+
		"is the server running?", text.JoinFirst(l, maxNames))
}
