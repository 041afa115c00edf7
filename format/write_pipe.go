package format

import (
	"encoding/binary"
	"fmt"
	"io"
)

// NewPipeWriter writes the start of a pipe-mode file to out, which may be a pipe or a
// file: struct perf_pipe_file_header, then the attrs, the sections and the attrs' names as
// records (perf_event__synthesize_for_pipe and perf_event__synthesize_extra_attr of
// tools/perf/util). Like perf, it omits sections that are too long for a record. Tracing
// data may have any length.
func NewPipeWriter(out io.Writer, attrs []Attr, early []Section) (*Writer, error) {
	w := &Writer{out: out}
	le := binary.LittleEndian
	b := le.AppendUint64([]byte(magic2), uint64(len(magic2)+8))
	for i := range attrs {
		before := len(b)
		if b = appendRecord(b, TypeHeaderAttr, &HeaderAttr{attrs[i]}, 0, 0); len(b) == before {
			return nil, fmt.Errorf("event %s has %d counters: too many for one record of a pipe", attrs[i].Name,
				len(attrs[i].IDs))
		}
	}
	var tracing *Section
	for i := range early {
		if early[i].Feature == FeatureTracingData {
			tracing = &early[i]
			continue
		}
		b = early[i].appendRecord(b)
	}
	if tracing != nil {
		b = tracing.appendTracing(b)
	}
	for i := range attrs {
		b = attrs[i].appendName(b)
	}
	if err := w.Write(b); err != nil {
		return nil, fmt.Errorf("writing the pipe's header: %w", err)
	}
	return w, nil
}

// appendName appends the attr's name as a PERF_RECORD_EVENT_UPDATE.
func (a *Attr) appendName(b []byte) []byte {
	if a.Name == "" || len(a.IDs) == 0 {
		return b
	}
	return appendRecord(b, TypeEventUpdate, &EventUpdate{Kind: EventUpdateName, ID: a.IDs[0], Name: a.Name}, 0, 0)
}

// appendRecord appends a PERF_RECORD_HEADER_FEATURE, as perf does without padding: readers
// use the end of a section to detect which fields are absent.
func (s *Section) appendRecord(b []byte) []byte {
	return appendRecord(b, TypeHeaderFeature, &HeaderFeature{s.Feature, s.Data}, 0, 0)
}

// appendTracing appends a PERF_RECORD_HEADER_TRACING_DATA and, after the record,
// the data, padded to a multiple of 8 bytes.
func (s *Section) appendTracing(b []byte) []byte {
	size := (len(s.Data) + 7) &^ 7
	b = appendRecord(b, TypeHeaderTracing, &HeaderTracing{Size: uint32(size)}, 0, 0)
	b = append(b, s.Data...)
	return append(b, make([]byte, size-len(s.Data))...)
}
