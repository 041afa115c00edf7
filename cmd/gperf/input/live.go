// This file connects a recorder in this process, or a pipe from another one, with a reader.

package input

import (
	"context"
	"errors"
	"io"
	"syscall"

	"gperf/internal/archive"
	"gperf/report/top"
)

// Live is a recording that is still made.
type Live struct {
	buffer *top.Buffer
	done   chan error // of the recorder; nil for a pipe
}

// NewLive starts a recorder that writes to a pipe.
func NewLive(run func(to io.Writer) error) *Live {
	s := &Live{top.NewBuffer(), make(chan error, 1)}
	go func() {
		err := run(s.buffer)
		s.buffer.Close(nil)
		s.done <- err
	}()
	return s
}

// LivePipe reads a recording from in until ctx is done.
func LivePipe(ctx context.Context, in io.Reader) *Live {
	s := &Live{buffer: top.NewBuffer()}
	context.AfterFunc(ctx, func() { s.buffer.Close(nil) })
	go func() {
		_, err := io.Copy(s.buffer, in)
		s.buffer.Close(err)
	}()
	return s
}

// Open waits for the recording's beginning. path is for messages.
func (s *Live) Open(path string) (*archive.Recording, error) {
	return archive.OpenStream(s.buffer, path)
}

// Wait returns the error that ended the recorder, after the end. err is the reader's, which
// ends the recorder if it is not nil.
func (s *Live) Wait(err error) error {
	s.buffer.Close(err)
	if s.done == nil {
		return nil
	}
	if err = <-s.done; errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
