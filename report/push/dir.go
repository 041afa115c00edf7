package push

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"gperf/internal/spool"
)

// dirSender writes files below a directory.
type dirSender string

func openDir(u *url.URL, _ *Options) (sender, error) {
	dir, err := localDir(u)
	return dirSender(dir), err
}

func (dirSender) close() {}

func (dir dirSender) send(_ context.Context, r *openedRequest) error {
	path := filepath.Join(string(dir), filepath.FromSlash(r.Path))
	if st, err := os.Stat(path); r.Once && err == nil && st.Size() == r.size {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return &RefusedError{Err: err}
	}
	return replaceFile(path, r.body())
}

// replaceFile replaces a file by one with these contents. Readers see the old or the new one.
func replaceFile(path string, contents io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gperf-") // node_exporter reads no file of this name
	if err != nil {
		return &RefusedError{Err: err}
	}
	defer os.Remove(f.Name()) // fails after the rename
	defer f.Close()
	if _, err := io.Copy(f, contents); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return spool.SyncDir(filepath.Dir(path)) // the spool forgets the file after this
}
