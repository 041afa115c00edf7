package continuous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pushNice is the nice value of gperf push: symbolizing and sending can wait.
const pushNice = 10

// spoolDir is the directory in which gperf push keeps unsent data, below the directory of the files.
const spoolDir = ".push"

// pushFiles runs gperf push for the finished files of a directory until ctx is done. It is another process: the
// CPU time and memory for symbolizing are not the recorder's, and the recorder survives its end.
func (o *Options) pushFiles(ctx context.Context, dir, url string) {
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends
	retry := firstRetry
	for {
		start := time.Now()
		err := o.pushOnce(ctx, dir, url)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) >= steadyTime {
			retry = firstRetry
		}
		o.Notice(fmt.Errorf("gperf push: starting it again in %v: %w", retry, err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
		retry = min(2*retry, longestRetry)
	}
}

// pushOnce runs gperf push once.
func (o *Options) pushOnce(ctx context.Context, dir, url string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, "push", "--follow", "--by", "container,pod",
		"--spool", filepath.Join(dir, spoolDir), dir, url)
	c.Stdout, c.Stderr = io.Discard, o.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	if err := c.Start(); err != nil {
		return err
	}
	unix.Setpriority(unix.PRIO_PROCESS, c.Process.Pid, pushNice) // it may run without
	if err := c.Wait(); err != nil {
		return err
	}
	return errors.New("it ended")
}
