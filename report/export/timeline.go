// This file writes the samples of recordings in the order of time, for other tools.
//
// JSON lists samples as they are read. The other formats list them by thread: a set collects the samples first.
//
// A StackSet adds up samples instead, and forgets times.

package export

import (
	"bufio"
	"io"

	"gperf/format"
	"gperf/internal/session"
)

// TimelineWriter writes the samples of recordings to a file.
type TimelineWriter interface {
	// Add reads a recording. The result counts the skipped parts of the file.
	Add(s *session.Session) (format.Skipped, error)
	// Finish completes the file. Without samples the error may be ErrNoSamples.
	Finish() error
}

// NewTimeline returns a writer of a format: json, speedscope, firefox or perfetto.
func NewTimeline(name string, w io.Writer, o TimelineOptions) TimelineWriter {
	if f, ok := fileFormats[name]; ok {
		return newSet(f, w, o)
	}
	return &jsonWriter{TimelineOptions: o, out: bufio.NewWriterSize(w, 1<<16)}
}

// TimelineOptions select the frames of stacks.
type TimelineOptions struct {
	MaxStack int    // how many frames of a callchain are written
	NoInline bool   // omits inlined functions
	Weight   string // the field that session.Weight made the periods from; "" for none
	Origins  bool   // JSON: each sample names the host, file and boot of the recording
}
