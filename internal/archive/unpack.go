package archive

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// perfSymbols is the member of an archive of perf archive --all that is itself an
// archive: of perf's cache.
const perfSymbols = "perf.symbols.tar.bz2"

// PerfArchive is a tar file that perf archive made.
type PerfArchive struct {
	file io.ReadSeeker
	// Recording are the names of the files of --all outside perf's cache.
	Recording []string
	all       bool
}

// OpenPerf reads the names of a tar file of perf archive, compressed or not.
func OpenPerf(file io.ReadSeeker) (*PerfArchive, error) {
	a := &PerfArchive{file: file}
	var names []string
	err := members(file, func(h *tar.Header, _ io.Reader) error {
		names = append(names, h.Name)
		return nil
	})
	if a.all = slices.Contains(names, perfSymbols); a.all {
		a.Recording = slices.DeleteFunc(names, func(name string) bool { return name == perfSymbols })
	}
	return a, err
}

// Unpack unpacks perf's cache to the directory cache and the recording to the
// directory here. It calls each with the names as it comes to them.
func (a *PerfArchive) Unpack(here, cache string, each func(name string)) error {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(cache)
	if err != nil {
		return err
	}
	defer to.Close()
	beside, err := os.OpenRoot(here)
	if err != nil {
		return err
	}
	defer beside.Close()
	toCache := func(h *tar.Header, r io.Reader) error {
		each(h.Name)
		return unpackTo(to, h, r)
	}
	if !a.all {
		return members(a.file, toCache)
	}
	return members(a.file, func(h *tar.Header, r io.Reader) error {
		each(h.Name)
		if h.Name == perfSymbols {
			return members(r, toCache)
		}
		return unpackTo(beside, h, r)
	})
}

// members calls do for each member of a tar file.
func members(r io.Reader, do func(*tar.Header, io.Reader) error) error {
	r, err := decompress(r)
	if err != nil {
		return err
	}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not a tar file of perf archive: %w", err)
		}
		if err := do(h, t); err != nil {
			return err
		}
	}
}

// decompress reads a stream of bzip2, of gzip, or of neither.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	switch magic, _ := b.Peek(2); string(magic) {
	case "BZ":
		return bzip2.NewReader(b), nil
	case "\x1f\x8b":
		return gzip.NewReader(b)
	}
	return b, nil
}

// unpackTo writes a member below root, from which no name and no link leads out.
func unpackTo(root *os.Root, h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		return root.Chtimes(name, h.ModTime, h.ModTime)
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname)) {
			return fmt.Errorf("the link %s leads out of the archive, to %s", h.Name, h.Linkname)
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(path.Clean(h.Linkname), name)
	}
	return fmt.Errorf("%s is no file, directory or link", h.Name)
}
