package dso

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// InFiles returns a Locator that looks only in files, for example an archive. files
// has paths without the first slash, and perf's cache as .debug. Its opened files
// implement io.ReaderAt.
func InFiles(files fs.FS) *Locator { return &Locator{Root: "/", files: files} }

// onDisk opens the files of flags and servers, even if the others are packed.
var onDisk = new(Locator)

// Packed reports whether the files are those of InFiles, which have a Root.
func (f *Locator) Packed() bool { return f.files != nil }

// OpenFile opens a file by the path that the other methods return.
func (f *Locator) OpenFile(path string) (fs.File, error) {
	if f.files == nil {
		return os.Open(path)
	}
	file, err := f.files.Open(inFiles(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	}
	return file, nil
}

func inFiles(path string) string { return strings.TrimPrefix(filepath.Clean(path), "/") }

// glob returns the paths that match the pattern.
func (f *Locator) glob(pattern string) (l []string) {
	if f.files == nil {
		l, _ = filepath.Glob(pattern)
		return l
	}
	l, _ = fs.Glob(f.files, inFiles(pattern))
	for i := range l {
		l[i] = "/" + l[i]
	}
	return l
}

// image opens the ELF file at path.
func (f *Locator) image(path string) (*Image, error) {
	if f.files == nil {
		return Open(path)
	}
	file, err := f.OpenFile(path)
	if err != nil {
		return nil, err
	}
	im, err := readImage(file, path)
	if err != nil {
		file.Close()
	}
	return im, err
}

func readImage(file fs.File, path string) (*Image, error) {
	r, ok := file.(io.ReaderAt)
	st, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("open: %w", err)
	case !ok || !st.Mode().IsRegular():
		return nil, fmt.Errorf("open %s: %w", path, ErrNotRegular)
	}
	im, err := NewImage(r, st.Size(), path)
	if err == nil {
		im.close = file.Close
	}
	return im, err
}

// Kallsyms opens the list of symbols of the kernel with build ID id, zero if it
// was not recorded: the running one's, if it is that, or else the copy in perf's
// cache.
func (f *Locator) Kallsyms(id BuildID) (fs.File, error) {
	if f.Root == "" {
		running, _ := KernelBuildID()
		if id.IsZero() || id.Matches(running) {
			return os.Open("/proc/kallsyms")
		}
	}
	if id.IsZero() {
		return f.OpenFile(f.Rooted("/proc/kallsyms"))
	}
	return f.OpenFile(f.KallsymsPath(id))
}
