package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"gperf/symbolize/archive"
	"gperf/symbolize/replay"
)

// runPerf makes what perf archive makes, and says what it says.
func (o *archiveFlags) runPerf(in *input, hit *hits, stdout, stderr io.Writer) error {
	name := cmp.Or(o.output, filepath.Clean(in.path)+".tar.bz2")
	_, err := writeWhole(name, stdout, func(w io.Writer) error {
		z, err := compressor(name, w)
		if err != nil {
			return err
		}
		err = packPerf(z, in, hit, stderr)
		return cmp.Or(z.Close(), err) // what ended the program that reads, then that it has ended
	})
	if err == nil && name != "-" {
		_, err = fmt.Fprintf(stdout, "Now please run:\n\n$ tar xvf %s -C ~/.debug\n\nwherever you need to run 'perf report' on.\n", name)
	}
	return err
}

// packPerf packs the files that have build IDs.
func packPerf(out io.Writer, in *input, hit *hits, stderr io.Writer) error {
	w := archive.NewPerfWriter(in.sym.Finder(), out, in.recorded)
	n := 0
	pack := func(add func() error) error {
		err := add()
		switch {
		case failed(err):
			return err
		case err != nil:
			fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err)
		default:
			n++
		}
		return nil
	}
	if id, _, _ := replay.RecordedKernel(in.file); hit.kernel && !id.IsZero() {
		if err := pack(func() error { return w.AddKernel(id) }); err != nil {
			return err
		}
	}
	for _, d := range hit.sorted() {
		if d.ID.IsZero() || d.kernel {
			continue
		}
		if err := pack(func() error { return d.told(w.AddDSO(d.DSO)) }); err != nil {
			return err
		}
	}
	if n == 0 {
		return errors.New("no file with a build ID was found")
	}
	return w.Close()
}

// noBzip2Error is that there is no bzip2 to write with.
type noBzip2Error struct{ err error }

func (e *noBzip2Error) Error() string { return fmt.Sprintf("compress as perf archive does: %v", e.err) }

// compressor compresses to w as the name of a tar file says.
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

// plain does not compress.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// piped is what a program reads.
type piped struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *piped) Close() error {
	err := p.WriteCloser.Close()
	return cmp.Or(p.cmd.Wait(), err)
}
