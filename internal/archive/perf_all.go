package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Compressed passes a writer to write that compresses to w, by the suffix of name: .gz and .tgz with gzip, .tar not,
// others with the program bzip2, as perf archive does.
func Compressed(name string, w io.Writer, write func(io.Writer) error) error {
	z, err := compressor(name, w)
	if err != nil {
		return err
	}
	err = write(z)
	return cmp.Or(z.Close(), err) // the compressor's own error explains the broken pipe in err
}

// WriteAll writes a tar file with the recording and the archive of symbols, as perf archive --all does.
func (r *Recording) WriteAll(out io.Writer, symbols func(io.Writer) error) error {
	inner, err := os.CreateTemp("", "gperf-*") // tar writes a member's size before the data
	if err != nil {
		return err
	}
	defer os.Remove(inner.Name())
	defer inner.Close()
	if err := Compressed(perfSymbols, inner, symbols); err != nil {
		return err
	}
	st, err := inner.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for i, p := range r.Parts {
		if err := addMember(w, partName(filepath.Base(r.Path), r.Directory, i), p); err != nil {
			return err
		}
	}
	return cmp.Or(addMember(w, perfSymbols,
		Part{ReaderAt: inner, Size: st.Size(), Changed: st.ModTime()}), w.Close())
}

func addMember(w *tar.Writer, name string, p Part) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: p.Size, ModTime: p.Changed, Mode: 0o600})
	if err == nil {
		_, err = io.Copy(w, io.NewSectionReader(p, 0, p.Size))
	}
	return err
}

// noBzip2Error reports that bzip2 is not installed.
type noBzip2Error struct{ err error }

func (e *noBzip2Error) Error() string { return fmt.Sprintf("compress as perf archive does: %v", e.err) }

// Hint says how to pack without it.
func (e *noBzip2Error) Hint() string {
	return "Install bzip2, or choose another compression: -o perf.data.tar.gz; tar and perf unpack it, too.\n"
}

// compressor returns a writer that compresses to w by the suffix of name.
func compressor(name string, w io.Writer) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"), strings.HasSuffix(name, ".tgz"):
		return gzip.NewWriter(w), nil
	case strings.HasSuffix(name, ".tar"):
		return plain{w}, nil
	}
	cmd := exec.Command("bzip2", "-c")
	cmd.Stdout = w
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, &noBzip2Error{err}
	}
	return &piped{in, cmd}, nil
}

// plain writes uncompressed.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// piped is the standard input of a running program. Close waits for the program.
type piped struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *piped) Close() error {
	err := p.WriteCloser.Close()
	return cmp.Or(p.cmd.Wait(), err)
}
