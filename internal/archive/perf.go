package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"gperf/internal/dso"
)

// PerfWriter packs files as perf archive does: a tar file to unpack in perf's cache, ~/.debug. There a directory
// PATH/ID contains a file, named after the kind, and the link .build-id/ID leads to the directory
// (build_id_cache__add_s in tools/perf/util/build-id.c).
type PerfWriter struct {
	Locator *dso.Locator
	tar     *tar.Writer
	names   map[string]bool
	now     time.Time // of members without a time
}

// NewPerfWriter returns a writer to out. now is the time of members without a time.
func NewPerfWriter(f *dso.Locator, out io.Writer, now time.Time) *PerfWriter {
	return &PerfWriter{Locator: f, tar: tar.NewWriter(out), names: map[string]bool{}, now: now}
}

// Close ends the archive.
func (w *PerfWriter) Close() error { return w.tar.Close() }

// AddDSO packs the complete file of a DSO with a build ID, and the file with the debug information, if that is
// another one.
func (w *PerfWriter) AddDSO(d DSO) (err error) {
	for _, name := range d.Paths {
		im, e := w.Locator.Find(name, d.ID)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		defer im.Close()
		base := "elf"
		switch dso.KindOf(name) {
		case dso.KindVDSO:
			base = "vdso"
		case dso.KindModule:
			name = im.Path
		}
		if err := w.image(name, d.ID, base, im); err != nil {
			return err
		}
		debug, supp, _ := w.Locator.Debug(name, d.ID)
		defer debug.Close()
		defer supp.Close()
		if debug == nil || debug.Path == im.Path {
			return nil
		}
		return w.image(name, d.ID, "debug", debug)
	}
	return err
}

// AddKernel packs the symbols of the kernel.
func (w *PerfWriter) AddKernel(id dso.BuildID) error {
	f, err := w.Locator.Kallsyms(id)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(f) // the size of a file of /proc is unknown before it is read
	if err != nil {
		return err
	}
	return w.add(dso.KernelName, id, "kallsyms", int64(len(b)), w.now, strings.NewReader(string(b)))
}

func (w *PerfWriter) image(name string, id dso.BuildID, base string, im *dso.Image) error {
	mod := changed(im.Path)
	if mod.IsZero() {
		mod = w.now
	}
	return w.add(name, id, base, int64(im.Size), mod, io.NewSectionReader(im, 0, int64(im.Size)))
}

// add writes a file of the directory for name and id, and the link to the directory. Errors are *WriteError.
func (w *PerfWriter) add(name string, id dso.BuildID, base string, size int64, mod time.Time, r io.Reader) error {
	hex := id.String()
	dir := strings.TrimPrefix(path.Join("/", name, hex), "/")
	link := path.Join(".build-id", hex[:2], hex[2:])
	if w.names[path.Join(dir, base)] {
		return nil
	}
	if !w.names[dir] {
		if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: "../../" + dir,
			ModTime: mod, Mode: 0o777}); err != nil {
			return &WriteError{fmt.Errorf("pack %s: %w", link, err)}
		}
	}
	w.names[dir] = true
	w.names[path.Join(dir, base)] = true
	err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, base), Size: size, ModTime: mod,
		Mode: 0o755})
	if err == nil {
		_, err = io.Copy(w.tar, r)
	}
	if err != nil {
		return &WriteError{fmt.Errorf("pack %s: %w", path.Join(dir, base), err)}
	}
	return nil
}
