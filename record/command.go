package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gperf/internal/procfs"
)

// command is a process that waits before it executes the command, so that counters with
// enable-on-exec can be opened on it. Go cannot fork without exec: gperf starts itself as
// execName, and that process (waitAndExec) waits for a byte from the pipe before it executes
// the command.
type command struct {
	proc   *os.Process
	name   string
	path   string
	start  *os.File // a byte starts the command, closing it ends the process
	status *os.File // a zero byte when the process waits, then why exec failed, if it did
}

// execName is the waiting process's argv[0] and comm.
const execName = "gperf-exec"

// fds of the waiting process.
const (
	startFD = 3 + iota
	statusFD
)

// init runs the waiting process: Go's initialization runs on the main thread, and only an
// exec on the main thread keeps the counters opened on it.
func init() {
	if len(os.Args) > 1 && os.Args[0] == execName {
		waitAndExec(os.Args[1], os.Args[2:])
	}
}

func waitAndExec(path string, argv []string) {
	name := append([]byte(execName), 0)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) // settle set it if the recorder recorded before
	unix.CloseOnExec(startFD)
	unix.CloseOnExec(statusFD)
	var b [1]byte
	unix.Write(statusFD, b[:])
	n, err := unix.Read(startFD, b[:])
	for err == unix.EINTR {
		n, err = unix.Read(startFD, b[:])
	}
	if n != 1 {
		os.Exit(0) // the recorder gave up
	}
	err = syscall.Exec(path, argv, os.Environ())
	var errno syscall.Errno
	errors.As(err, &errno)
	unix.Write(statusFD, []byte{byte(errno)})
	os.Exit(127)
}

// findCommand looks up the command as the shell does.
func findCommand(argv []string) (string, error) {
	path, err := exec.LookPath(argv[0])
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	cause := error(unix.ENOENT)
	if errors.Is(err, os.ErrPermission) {
		cause = unix.EACCES
	}
	return "", &CommandError{argv[0], cause}
}

// startCommand starts the process that will execute argv.
func startCommand(argv []string, pipe bool) (*command, error) {
	path, err := findCommand(argv)
	if err != nil {
		return nil, err
	}
	stdout := os.Stdout
	if pipe {
		stdout = os.Stderr // as in perf: the pipe gets the recording only
	}
	c := &command{name: argv[0], path: path}
	startR, startW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer startR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		startW.Close()
		return nil, err
	}
	c.start, c.status = startW, statusR
	c.proc, err = os.StartProcess("/proc/self/exe", append([]string{execName, path}, argv...),
		&os.ProcAttr{Files: []*os.File{os.Stdin, stdout, os.Stderr, startR, statusW}})
	statusW.Close()
	if err == nil {
		err = c.waiting()
	}
	if err == nil {
		err = unix.Setpriority(unix.PRIO_PROCESS, c.proc.Pid, begunNice)
	}
	if err != nil {
		c.close()
		return nil, &CommandError{argv[0], err}
	}
	return c, nil
}

// waiting returns when the process is waiting. os.StartProcess returns earlier, during gperf's
// own exec, which would enable counters that are already open.
func (c *command) waiting() error {
	var b [1]byte
	if _, err := c.status.Read(b[:]); err != nil {
		c.proc.Wait()
		return fmt.Errorf("the process that waits to execute the command has exited: %w", err)
	}
	return nil
}

// pause stops the waiting process. Go may start threads in it at any time, and these inherit
// counters in their current state: no thread may start while programs are still to be
// attached to the counters.
func (c *command) pause() error {
	if err := c.proc.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	var st unix.WaitStatus
	for {
		_, err := unix.Wait4(c.proc.Pid, &st, unix.WUNTRACED, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

func (c *command) resume() { c.proc.Signal(unix.SIGCONT) }

// exec makes the process execute the command, and returns an error if that failed.
func (c *command) exec() error {
	defer c.close()
	if _, err := c.start.Write([]byte{1}); err != nil {
		return &CommandError{c.name, err}
	}
	why, err := io.ReadAll(c.status)
	if err == nil && len(why) > 0 {
		err = syscall.Errno(why[0])
	}
	if err != nil {
		c.proc.Wait()
		return &CommandError{c.name, err}
	}
	return nil
}

// close ends the process if it has not executed the command.
func (c *command) close() {
	c.start.Close()
	c.status.Close()
}

// comm returns the name that the exec gives the process.
func (c *command) comm() string {
	name := filepath.Base(c.name)
	return name[:min(len(name), procfs.MaxComm)]
}
