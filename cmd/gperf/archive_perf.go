package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gperf/internal/archive"
)

// runPerf writes perf archive's format, and prints the messages of perf archive.
func (o *archiveFlags) runPerf(in *openInput, hits *archive.Hits, stdout, stderr io.Writer) error {
	name := cmp.Or(o.output, filepath.Clean(in.recording.Path)+".tar.bz2")
	pack := func(w io.Writer) error { return packPerf(w, in, hits, stderr) }
	if o.all {
		name = cmp.Or(o.output, allName(time.Now()))
		symbols := pack
		pack = func(w io.Writer) error { return in.recording.WriteAll(w, symbols) }
	}
	_, err := archive.WriteFile(name, stdout, nil, func(w io.Writer) error { return archive.Compressed(name, w, pack) })
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

// packPerf packs the files with build IDs.
func packPerf(out io.Writer, in *openInput, hits *archive.Hits, stderr io.Writer) error {
	w := archive.NewPerfWriter(in.session.Symbols.Locator(), out, in.recording.Written)
	n, err := hits.PackPerf(w, warnNotPacked(stderr))
	if err != nil {
		return err
	}
	if n == 0 {
		return errors.New("no file with a build ID was found")
	}
	return w.Close()
}
