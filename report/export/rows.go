// This file makes rows for databases: one for each sample, or for the equal samples of a minute. It lists the
// distinct stacks and frames of the rows once.
//
// Memory is bounded by the distinct stacks: rows pass through it.

package export

import (
	"time"

	"gperf/format"
	"gperf/internal/container"
	"gperf/internal/session"
	"gperf/report/key"
)

// RowOptions select the content of rows.
type RowOptions struct {
	Samples  bool   // a row for each sample, not for each minute
	MaxStack int    // maximum number of frames of a stack, 0 for all
	NoInline bool   // omits inlined functions
	Weight   string // the field that session.Weight made the periods from; "" for none
}

// Row is a sample, or the samples of a minute that differ in nothing else.
type Row struct {
	// Time is the sample's time, or the beginning of the minute, in ns since 1970 (UTC).
	Time      int64
	Event     int // index in Recording.Events
	Comm      string
	PID       int32
	TID, CPU  int32            // -1 in rows of minutes, and where they were not recorded
	Cgroup    string           // path, "" if not recorded
	Container *container.Named // nil if the path says none
	Samples   int64
	Weight    int64       // the sum of the periods, in Event.Unit
	Values    []key.Value // of Event.Columns. Those with the Text key.Missing are missing
	Stack     int32       // index in Stacks.Stacks
}

// RowEvent is an event of a recording.
type RowEvent struct {
	Name string
	Unit string // of weights: "nanoseconds", "bytes" or "count"
	// Columns are the fields of the tracepoint: all of them in rows of samples, in rows of minutes those with few
	// values, see key.Options.
	Columns []key.Column
}

// RowFrame is a function at a line. The fields that are unknown are zero.
type RowFrame struct {
	Function string // of an address without a name: the DSO, as flame graphs show it; never ""
	File     string // of the source
	Line     int32
	DSO      string // path, or a name in brackets
	BuildID  string // hexadecimal
	Kind     FrameKind
}

// FrameKind says what kind of code a frame is.
type FrameKind string

// The kinds of frames.
const (
	kernelFrame  FrameKind = "kernel"
	userFrame    FrameKind = "user"
	jitFrame     FrameKind = "jit"     // of a runtime with a just-in-time compiler
	runtimeFrame FrameKind = "runtime" // a function of a runtime such as Python
	inlinedFrame FrameKind = "inlined" // a function inlined into the next frame's, whose kind is the code's kind
	unknownFrame FrameKind = "unknown" // the address is in no mapping
)

// Stacks lists the distinct stacks and frames of a recording.
type Stacks struct {
	Stacks [][]int32 // indexes in Frames, the innermost first
	Frames []RowFrame
}

// Rows is a recording whose rows are read.
type Rows struct {
	Host string // "" if not recorded
	// Estimated means that the recording does not say what time of day it was. Times assume that the file was written
	// just after the last sample, or for a pipe before the first one.
	Estimated bool
	Events    []RowEvent // as in File.Attrs
	Stacks               // of the rows so far. Read appends to them.

	session *session.Session
	options RowOptions
	keys    *key.Keys
	offset  int64 // added to the recording's times for ns since 1970
	pending bool  // offset becomes known with the first sample
}

// NewRows prepares reading the rows of a session, which must not have been walked.
func NewRows(s *session.Session, o RowOptions) (*Rows, error) {
	keys, err := key.New(s.File, s.Symbols, key.Options{Few: !o.Samples, All: o.Samples})
	if err != nil {
		return nil, err
	}
	r := &Rows{Host: s.File.String(format.FeatureHostname), session: s, options: o, keys: keys}
	for i := range s.File.Attrs {
		r.Events = append(r.Events, RowEvent{Name: s.File.EventName(i), Unit: session.EventUnit(s.File, i, o.Weight),
			Columns: keys.Columns(i)})
	}
	return r, nil
}

// Read passes the rows to use, which may use them until it returns. Rows of samples are in the order of time. There may
// be several equal rows of a minute with very many rows. An error of use ends Read. The result counts the skipped
// parts of the file.
func (r *Rows) Read(use func([]Row) error) (format.Skipped, error) {
	if err := r.findOffset(); err != nil {
		return format.Skipped{}, err
	}
	in := newReader(r, use)
	skipped, err := r.session.Walk(session.WalkOptions{Names: true, KeepChains: true}, in.batch)
	if err == nil {
		err = in.flush()
	}
	return skipped, err
}

// minute returns the beginning of the minute that contains a time, in ns.
func minute(ns int64) int64 { return ns - ns%int64(time.Minute) }
