// Package output writes the records of a recording into a file, a series of files or a pipe, compressed or not.
package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"gperf/format"
)

// Pipe is the path of standard output, in pipe mode.
const Pipe = "-"

// Options define the output.
type Options struct {
	Path string // or Pipe
	// To is where Pipe writes to; nil: standard output.
	To io.Writer
	// Name is the recording's path: Path, or the directory that contains it.
	Name string
	// Compress, if not 0, is the zstd level, 1 to 22.
	Compress int
	// Compressed2 writes compressed records in the format of perf 6.16 and later.
	Compressed2 bool
	// Timestamp appends the time to Name when a file is finished.
	Timestamp bool
	// Next, if set, returns the path of each file when it is created, in place of Path and Timestamp.
	Next func() string
	// Checkpoints makes the file readable by perf at Checkpoint. Otherwise perf reads only finished files.
	Checkpoints bool
	// MaxFiles is the number of files to keep; 0: all.
	MaxFiles int
	// Wake is called after an error of writing in the background.
	Wake func()
	// Notice receives warnings.
	Notice func(error)
	// Progress receives the progress of a step that can take long: n of so many.
	Progress func(step string, n, of int)
}

// Counts describe the records of a file.
type Counts struct {
	Samples     uint64
	First, Last uint64 // times of samples, in ns; 0: no sample has a time
}

// Output is a series of files, one open at a time, or a pipe.
type Output struct {
	opts  Options
	path  string         // of the open file
	kept  []string       // finished files, the oldest first; nil if all are kept
	files int            // number of finished ones
	file  *os.File       // nil: a pipe
	w     *format.Writer // nil: no file is open
	z     *compressing   // nil without
	// size is the size of the file up to the last Commit, and counts are the counts of its
	// records; without z.
	size   int64
	counts Counts
}

// New returns an Output without a file.
func New(o Options) *Output { return &Output{opts: o} }

// Error means that the output could not be created or written to.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string {
	var p *fs.PathError // it would repeat the path
	if errors.As(e.Err, &p) {
		return fmt.Sprintf("writing %s: %v", e.Path, p.Err)
	}
	return fmt.Sprintf("writing %s: %v", e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func (o *Output) fail(err error) error {
	if err == nil {
		return nil
	}
	return &Error{cmp.Or(o.path, o.opts.Path), err}
}

// IsPipe reports whether records go to a pipe.
func (o *Output) IsPipe() bool { return o.opts.Path == Pipe }

// IsOpen reports whether there is an open file.
func (o *Output) IsOpen() bool { return o.w != nil }

// Path returns the path of the open file, "" for a pipe.
func (o *Output) Path() string { return o.path }

// Files returns the number of finished files.
func (o *Output) Files() int { return o.files }

// Create creates a file, and writes everything that comes before the records.
func (o *Output) Create(attrs []format.Attr, early []format.Section) error {
	return o.fail(o.create(attrs, early))
}

func (o *Output) create(attrs []format.Attr, early []format.Section) (err error) {
	if level := o.opts.Compress; level > 0 {
		early = append(early, format.CompressedSection(level, 0))
	}
	var w *format.Writer
	if o.IsPipe() {
		w, err = format.NewPipeWriter(cmp.Or[io.Writer](o.opts.To, os.Stdout), attrs, early)
	} else {
		o.path = o.opts.Path
		if o.opts.Next != nil {
			o.path = o.opts.Next()
		}
		if o.file, err = createFile(o.path); err != nil {
			return err
		}
		w, err = format.NewWriter(o.file, attrs, early)
	}
	if err == nil && o.opts.Compress > 0 {
		o.z, err = newCompressing(w, &o.opts)
	}
	if err != nil {
		o.file.Close()
		return err
	}
	o.w, o.size, o.counts = w, w.Size(), Counts{}
	return nil
}

// compressedType returns the type of compressed records.
func (o *Options) compressedType() format.Type {
	if o.Compressed2 {
		return format.TypeCompressed2
	}
	return format.TypeCompressed
}

// Write appends records. The error may belong to earlier ones.
func (o *Output) Write(b []byte) error {
	if o.z != nil {
		return o.fail(o.z.write(b))
	}
	return o.fail(o.w.Write(b))
}

// Commit marks all data written so far as complete records, which the counts describe: if a
// later write fails, the file ends here.
func (o *Output) Commit(c Counts) {
	if o.z != nil {
		o.z.commit(c)
		return
	}
	o.size, o.counts = o.w.Size(), c
}

// Checkpoint makes committed records readable by perf until the next Write, if Options ask for that. With compression,
// this happens in the background.
func (o *Output) Checkpoint() error {
	if o.z != nil || !o.opts.Checkpoints {
		return nil
	}
	return o.fail(o.w.Checkpoint())
}

// Size returns the number of bytes written to the file; with compression, a little less.
func (o *Output) Size() int64 {
	if o.z != nil {
		return o.z.size.Load()
	}
	return o.w.Size()
}

// Finished describes a finished file.
type Finished struct {
	Name   string // of Next, or with a time; "" for Path
	Bytes  int64
	Counts Counts
	// Original is the number of bytes before compression, and Compressed after it; 0 without
	// compression.
	Original, Compressed int64
}

// Finish closes the file. late returns the feature sections that are known at the end. After an
// error, the file ends after the last records that were committed and written, and the result
// describes these.
func (o *Output) Finish(late func(Counts) []format.Section) (done Finished, err error) {
	if o.z != nil {
		o.size, o.counts, err = o.z.close(o.opts.Progress)
		done.Original, done.Compressed = o.z.c.Sizes()
	}
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	keep(o.closeWriter(late))
	done.Bytes, done.Counts = o.w.Size(), o.counts
	if o.file != nil {
		if e := o.keepName(); e != nil {
			keep(e)
			done.Bytes, done.Counts.Samples = 0, 0
		}
		keep(o.file.Close())
		switch {
		case o.opts.Next != nil:
			done.Name = o.path
		case o.opts.Timestamp:
			var e error
			done.Name, e = timestamp(o.opts.Name)
			keep(e)
		}
	}
	o.files++
	o.file, o.w, o.z = nil, nil, nil
	return done, o.fail(err)
}

// closeWriter removes the incomplete records of a failed write, and writes the sections.
func (o *Output) closeWriter(late func(Counts) []format.Section) error {
	sections := late(o.counts)
	if o.z != nil {
		sections = append(sections, o.z.c.Section())
	}
	err := o.w.Rewind(o.size)
	if err == nil {
		err = o.w.Close(sections)
	}
	if err != nil {
		o.w.Rewind(o.size)
	}
	return err
}
