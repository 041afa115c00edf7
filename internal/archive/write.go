package archive

import (
	"archive/zip"
	"fmt"
	"io"
	"time"
)

// Writer writes an archive.
type Writer struct {
	zip   *zip.Writer
	index []byte
	names map[string]bool
	first time.Time // of the first member, the recording
}

// NewWriter returns a Writer of an archive to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{zip: zip.NewWriter(out), names: map[string]bool{}}
	w.zip.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return newDeflater(out, &w.index), nil
	})
	return w
}

// Add adds a file, unless the archive contains one of that name. A file without a time gets the first file's time.
func (w *Writer) Add(name string, changed time.Time, r io.Reader) error {
	if w.names[name] {
		return nil
	}
	if len(w.names) == 0 {
		w.first = changed
	}
	if changed.IsZero() {
		changed = w.first
	}
	w.names[name] = true
	f, err := w.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: changed})
	if err == nil {
		_, err = io.Copy(f, r)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// Close writes the index and ends the archive.
func (w *Writer) Close() error {
	f, err := w.zip.CreateHeader(&zip.FileHeader{Name: index, Method: zip.Store, Modified: w.first})
	if err == nil {
		_, err = f.Write(w.index)
	}
	if err != nil {
		return err
	}
	return w.zip.Close()
}
