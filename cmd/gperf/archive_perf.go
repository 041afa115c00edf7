package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gperf/internal/archive"
)

// runPerf writes perf archive's format, and prints the messages of perf archive.
func (o *archiveFlags) runPerf(in *input, hits *archive.Hits, stdout, stderr io.Writer) error {
	name := cmp.Or(o.output, filepath.Clean(in.Path)+".tar.bz2")
	pack := func(w io.Writer) error { return packPerf(w, in, hits, stderr) }
	if o.all {
		name = cmp.Or(o.output, allName(time.Now()))
		symbols := pack
		pack = func(w io.Writer) error { return packAll(w, in, symbols) }
	}
	_, err := writeWhole(name, stdout, func(w io.Writer) error { return compressed(name, w, pack) })
	if err == nil && name != "-" {
		_, err = fmt.Fprintf(stdout,
			"Now please run:\n\n$ perf archive --unpack %s\n\nor unpack the tar manually wherever you need to run "+
				"'perf report' on.\n", name)
	}
	return err
}

// allName returns the file name of perf archive --all.
func allName(now time.Time) string {
	host, _ := os.Hostname()
	return "perf.all-" + host + now.Format("-20060102-150405") + ".tar.bz2"
}

// compressed compresses the output of write by the suffix of name.
func compressed(name string, w io.Writer, write func(io.Writer) error) error {
	z, err := compressor(name, w)
	if err != nil {
		return err
	}
	err = write(z)
	return cmp.Or(z.Close(), err) // the compressor's own error explains the broken pipe in err
}

// packAll writes a tar file with the recording and the archive of symbols.
func packAll(out io.Writer, in *input, symbols func(io.Writer) error) error {
	inner, err := os.CreateTemp("", "gperf-*") // tar writes a member's size before its data
	if err != nil {
		return err
	}
	defer os.Remove(inner.Name())
	defer inner.Close()
	if err := compressed(archive.PerfSymbols, inner, symbols); err != nil {
		return err
	}
	st, err := inner.Stat()
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for i, p := range in.Parts {
		name := filepath.Base(in.Path)
		switch {
		case in.Directory && i == 0:
			name += "/data"
		case in.Directory:
			name += fmt.Sprintf("/data.%d", i-1)
		}
		if err := addMember(w, name, p); err != nil {
			return err
		}
	}
	return cmp.Or(addMember(w, archive.PerfSymbols,
		archive.Part{ReaderAt: inner, Size: st.Size(), Changed: st.ModTime()}), w.Close())
}

func addMember(w *tar.Writer, name string, p archive.Part) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: p.Size, ModTime: p.Changed, Mode: 0o600})
	if err == nil {
		_, err = io.Copy(w, io.NewSectionReader(p, 0, p.Size))
	}
	return err
}

// packPerf packs the files that have build IDs.
func packPerf(out io.Writer, in *input, hits *archive.Hits, stderr io.Writer) error {
	w := archive.NewPerfWriter(in.session.Symbols.Locator(), out, in.Written)
	n, err := hits.PackPerf(w, warnNotPacked(stderr))
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("no file with a build ID was found")
	}
	return w.Close()
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
