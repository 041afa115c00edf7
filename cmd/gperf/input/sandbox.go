// This file gives up rights before root reads a recording of another user, who chooses the bytes that gperf decodes,
// and the files that it opens.

package input

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
	"gperf/internal/dso/debuginfod"
	"gperf/internal/untrusted"
)

// sandbox holds the rights that the process gave up, which it does once.
type sandbox struct {
	once  sync.Once
	pager string // a command of a shell that may still be started
	err   error
}

// own is nil in tests, which run commands in the test process: it keeps all rights.
var own *sandbox

// EnableSandbox makes Enter give up rights, except that to start a pager.
func EnableSandbox(pager string) { own = &sandbox{pager: pager} }

// EnterSandbox gives up the rights that a command which reads does not need, if this process is root's and the
// recording is another user's. It says so once. outputs are files that the command will write.
func EnterSandbox(recording *os.File, outputs []string, stderr io.Writer) error {
	if own == nil || os.Geteuid() != 0 {
		return nil
	}
	st, err := recording.Stat()
	if err != nil || !untrusted.IsOthers(st) {
		return err
	}
	own.once.Do(func() {
		path := recording.Name()
		if !untrusted.CanConfine() {
			fmt.Fprintf(stderr, "gperf: %s is another user's, and gperf reads it with all rights of root, as the "+
				"kernel has no Landlock: read it as an ordinary user (--no-sandbox omits this message)\n", path)
			return
		}
		fmt.Fprintf(stderr, "gperf: %s is another user's: as root, gperf reads it with few rights: it looks into no "+
			"running process, and writes only caches and its output (--no-sandbox keeps all rights)\n", path)
		own.err = untrusted.Confine(changes(outputs), programs(own.pager))
	})
	return own.err
}

// changes returns the paths that may be written: devices, temporary files, caches, and the directories of outputs.
func changes(outputs []string) []string {
	l := []string{os.DevNull, "/dev/tty", "/dev/pts", os.TempDir(), new(dso.Tree).Cache().Dir, debuginfod.CacheDir()}
	if dir, err := cache.Path(""); err == nil {
		os.MkdirAll(dir, 0o755)
		l = append(l, dir)
	}
	for _, path := range outputs {
		l = append(l, filepath.Dir(path))
	}
	return l
}

// programs returns the programs that start if a shell runs a command, with interpreters.
func programs(command string) []string {
	var l []string
	for _, name := range append(strings.Fields(command), "sh") {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // an argument, or an assignment
		}
		l = append(l, path)
		if e, err := dso.OpenELF(path); err == nil {
			if interpreter := e.Section(".interp"); interpreter != nil {
				name, _ := interpreter.Data()
				l = append(l, string(bytes.TrimRight(name, "\x00")))
			}
			e.Close()
		}
	}
	return l
}
