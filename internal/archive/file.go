package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a temporary file and renames it when it is complete. It writes directly
// to stdout (name "-") and to files that are not regular. It returns the number of bytes
// written, and passes it to written after each Write, unless that is nil.
func WriteFile(name string, stdout io.Writer, written func(n int64), write func(io.Writer) error) (int64, error) {
	if name == "-" {
		return writeTo(stdout, written, write)
	}
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		n, err := writeTo(f, written, write)
		return n, errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gperf-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // fails after the rename
	n, err := writeTo(f, written, write)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, os.Rename(f.Name(), name)
}

// writeTo calls write and returns the number of bytes written. An error of w takes precedence over the error that
// write derives from it.
func writeTo(w io.Writer, written func(int64), write func(io.Writer) error) (int64, error) {
	c := &counting{w: w, each: written}
	err := write(c)
	return c.n, cmp.Or(c.err, err)
}

// counting counts the bytes written to w and keeps the first error.
type counting struct {
	w    io.Writer
	n    int64
	err  error
	each func(n int64) // is called after each Write; nil: none
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = cmp.Or(c.err, err)
	if c.each != nil {
		c.each(c.n)
	}
	return n, err
}

// tempFile is a temporary file. It has no name, except on Windows, which removes no open file.
type tempFile struct {
	*os.File
	named bool
}

func newTempFile() (*tempFile, error) {
	f, err := os.CreateTemp("", "gperf-")
	if err != nil {
		return nil, err
	}
	return &tempFile{f, os.Remove(f.Name()) != nil}, nil
}

// Close closes the file, and removes it.
func (f *tempFile) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
