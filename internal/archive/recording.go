package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gperf/format"
)

// Recording is an open recording: a file, a directory, an archive or a pipe.
type Recording struct {
	File *format.File
	Path string // for messages
	// Written is the modification time of the file. For a pipe, it is the time of creation.
	Written time.Time
	// Parts holds the recording's files: several for a directory, none for a pipe
	// that is read as it arrives. They are open until Close.
	Parts     []Part
	Directory bool
	// Packed is the archive that contains the recording, or nil.
	Packed *Archive
	// Proc is the directory with files of the recorded machine's /proc, or "".
	Proc string

	closers []io.Closer // files of a directory, or the copy of a pipe
}

// OpenRecording reads the beginning of the recording fd, whose path is for messages.
// The recording uses fd until Close, which leaves it open.
func OpenRecording(fd *os.File, path string) (*Recording, error) {
	r := &Recording{Path: path}
	if err := r.open(fd); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// OpenStream reads the beginning of a recording that arrives in pipe mode.
func OpenStream(b io.Reader, path string) (*Recording, error) {
	r := &Recording{Path: path, Written: time.Now()}
	if err := r.Wrap(r.openPipe(b)); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// OpenRecordingAt reads the beginning of a recording or archive of size bytes, which was written at a time, zero if
// unknown. path is for messages. Close closes r, if it is an io.Closer.
func OpenRecordingAt(r io.ReaderAt, size int64, path string, written time.Time) (*Recording, error) {
	rec := &Recording{Path: path, Written: written}
	if c, ok := r.(io.Closer); ok {
		rec.closers = append(rec.closers, c)
	}
	p := Part{ReaderAt: r, Size: size, Changed: written}
	rec.Parts = []Part{p}
	if err := rec.Wrap(rec.openPart(p)); err != nil {
		rec.Close()
		return nil, err
	}
	return rec, nil
}

// Close closes the files that OpenRecording opened.
func (r *Recording) Close() {
	for _, c := range r.closers {
		c.Close()
	}
}

// Kallsyms returns the path of the recorded machine's kallsyms, or "".
func (r *Recording) Kallsyms() string {
	if r.Proc == "" {
		return ""
	}
	return filepath.Join(r.Proc, "kallsyms")
}

// Wrap adds the recording's path to an error of reading it, and whether the
// recording is truncated or damaged.
func (r *Recording) Wrap(err error) error {
	var damage *format.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: truncated: %w", r.Path, err)
	case errors.As(err, &damage) && !errors.Is(err, format.ErrNotPerfData):
		return fmt.Errorf("%s: damaged: %w", r.Path, err)
	}
	return fmt.Errorf("%s: %w", r.Path, err)
}

func (r *Recording) open(fd *os.File) error {
	st, err := fd.Stat()
	if err != nil {
		return err
	}
	r.Written = st.ModTime()
	switch {
	case st.IsDir():
		return r.openDir()
	case st.Mode().IsRegular():
		return r.Wrap(r.openFile(fd))
	}
	return r.Wrap(r.openPipe(fd))
}

func (r *Recording) openFile(fd *os.File) error {
	p, err := r.addPart(fd)
	if err != nil {
		return err
	}
	return r.openPart(p)
}

// openPart opens the only file of a recording, or an archive.
func (r *Recording) openPart(p Part) (err error) {
	head := make([]byte, 4)
	if p.ReadAt(head, 0); Is(head) {
		return r.openPacked(p)
	}
	r.File, err = format.Open(p, p.Size)
	return err
}

// openPacked opens the recording in an archive.
func (r *Recording) openPacked(p Part) (err error) {
	if r.Packed, err = Open(p, p.Size); err != nil {
		return err
	}
	r.Parts = r.Packed.Recording()
	r.Directory = len(r.Parts) > 1
	r.Written = r.Parts[0].Changed
	if r.File, err = format.Open(r.Parts[0], r.Parts[0].Size); err != nil {
		return err
	}
	for _, p := range r.Parts[1:] {
		r.File.AddData(p, p.Size)
	}
	return nil
}

// openPipe reads a recording in pipe mode as it arrives. It first copies other formats, which refer to later bytes,
// to a temporary file.
func (r *Recording) openPipe(fd io.Reader) error {
	b := bufio.NewReaderSize(fd, 1<<16)
	if head, _ := b.Peek(16); !format.FileMode(head) && !Is(head) {
		var err error
		r.File, err = format.OpenStream(b)
		return err
	}
	spool, err := newTempFile()
	if err != nil {
		return err
	}
	r.closers = append(r.closers, spool)
	if _, err := b.WriteTo(spool); err != nil {
		return fmt.Errorf("copying the pipe to a temporary file: %w", err)
	}
	return r.openFile(spool.File)
}

// partName returns the path of part i of a recording; of a directory there are several.
func partName(path string, directory bool, i int) string {
	switch {
	case !directory:
		return path
	case i == 0:
		return path + "/" + format.DirData
	}
	return fmt.Sprintf("%s/%s.%d", path, format.DirData, i-1)
}

// openDir opens a directory written by perf record --threads or --kcore.
func (r *Recording) openDir() error {
	r.Directory = true
	proc := filepath.Join(r.Path, format.DirKcore)
	if _, err := os.Stat(filepath.Join(proc, "kallsyms")); err == nil {
		r.Proc = proc
	}
	for i := 0; ; i++ {
		path := partName(r.Path, true, i)
		fd, err := os.Open(path)
		switch {
		case err == nil:
		case i == 0:
			return fmt.Errorf("%s: this directory is not a recording, it has no file data: %w", r.Path, err)
		case errors.Is(err, os.ErrNotExist):
			return nil
		default:
			return err
		}
		r.closers = append(r.closers, fd)
		p, err := r.addPart(fd)
		if err != nil {
			return err
		}
		if i > 0 {
			r.File.AddData(p, p.Size)
		} else if r.File, err = format.Open(p, p.Size); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (r *Recording) addPart(fd *os.File) (Part, error) {
	st, err := fd.Stat()
	if err != nil {
		return Part{}, err
	}
	p := Part{ReaderAt: fd, Size: st.Size(), Changed: r.Written}
	r.Parts = append(r.Parts, p)
	return p, nil
}
