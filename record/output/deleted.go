package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// DeletedError is a notice: the output was deleted during the recording, and has been written
// again.
type DeletedError struct{ Path string }

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s was deleted during the recording: written again", e.Path)
}

// MovedError is a notice: the output was renamed, for example because a second recording
// keeps it as perf.data.old.
type MovedError struct{ Path string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s is another file now: this recording was renamed while it ran, perhaps to %s.old",
		e.Path, e.Path)
}

// keepName keeps the recording accessible: it copies a deleted file to its name, unless
// another file has that name now.
func (o *Output) keepName() error {
	path := o.path
	own, err := o.file.Stat()
	if err != nil || !own.Mode().IsRegular() {
		return err
	}
	there, err := os.Stat(path)
	if err == nil && os.SameFile(own, there) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(o.file.Fd()), &st); err != nil {
		return err
	}
	if st.Nlink > 0 {
		o.opts.Notice(&MovedError{path})
		return nil
	}
	if err == nil {
		return fmt.Errorf("the output was deleted during the recording, and %s is another file now", path)
	}
	if err := copyDeleted(o.file, path); err != nil {
		if p := (*fs.PathError)(nil); errors.As(err, &p) { // Error has the path
			err = p.Err
		}
		return fmt.Errorf("the output was deleted during the recording and cannot be written again: %w", err)
	}
	o.opts.Notice(&DeletedError{path})
	return nil
}

// copyDeleted copies a file without a name to path, which must not exist.
func copyDeleted(f *os.File, path string) error {
	in, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
