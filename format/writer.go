package format

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Output is the destination of a Writer, usually an *os.File.
type Output interface {
	io.Writer
	io.WriterAt
	io.Seeker
	Truncate(size int64) error
}

// Writer writes a perf.data file that is readable at any moment. NewWriter writes the
// header, attrs and the sections known at the start; Write appends complete records. Close
// appends the other sections and stores the size of the data, which is 0 until then or
// until Checkpoint, in the header. On a pipe (NewPipeWriter), records replace the header's contents and the
// sections.
type Writer struct {
	out      io.Writer
	file     Output // equals out; nil for a pipe
	hdr      fileHeader
	size     int64 // bytes written
	complete bool  // the header and the table describe all data, after Checkpoint
	sections map[Feature]section
}

// lateFeatures are known only at the end. All other sections keep the place where
// NewWriter wrote them, so an unfinished file has them, too.
var lateFeatures = []Feature{FeatureSampleTime, FeatureBuildID, FeatureCost, FeatureNames}

// NewWriter writes the header, the attrs and the early sections.
func NewWriter(out Output, attrs []Attr, early []Section) (*Writer, error) {
	w := &Writer{out: out, file: out, sections: map[Feature]section{}}
	w.hdr.attrSize = AttrSize + attrEntryExtra
	w.hdr.attrs = section{fileHeaderSize, uint64(len(attrs)) * w.hdr.attrSize}

	// The ids follow the attrs, the early sections follow the ids.
	end := w.hdr.attrs.end()
	var entries, ids []byte
	for i := range attrs {
		entries = attrs[i].Append(entries)
		entries = section{end, uint64(len(attrs[i].IDs)) * 8}.append(entries)
		for _, id := range attrs[i].IDs {
			ids = binary.LittleEndian.AppendUint64(ids, id)
		}
		end += uint64(len(attrs[i].IDs)) * 8
	}
	b := append(entries, ids...)
	for _, s := range early {
		b = w.place(b, fileHeaderSize, s)
	}
	b = w.appendTable(b)
	w.hdr.data.off = uint64(fileHeaderSize + len(b))
	if err := w.Write(append(w.hdr.append(nil), b...)); err != nil {
		return nil, fmt.Errorf("writing the file header: %w", err)
	}
	return w, nil
}

// place appends s to b and stores its place in the file. base is the file offset of b's
// first byte. Sections begin at multiples of 8.
func (w *Writer) place(b []byte, base uint64, s Section) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	w.sections[s.Feature] = section{base + uint64(len(b)), uint64(len(s.Data))}
	w.hdr.features.set(s.Feature)
	return append(b, s.Data...)
}

func (w *Writer) appendTable(b []byte) []byte {
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	for _, f := range w.hdr.features.list() {
		b = w.sections[f].append(b)
	}
	return b
}

func (s section) append(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, s.off), s.size)
}

// Write appends complete records.
func (w *Writer) Write(records []byte) error {
	if err := w.reopen(); err != nil {
		return err
	}
	n, err := w.out.Write(records)
	w.size += int64(n)
	return err
}

// Size returns the number of bytes written so far.
func (w *Writer) Size() int64 { return w.size }

// Rewind truncates the file to size bytes to remove the rest of a failed write. size is
// the end of a complete record. Rewind does nothing on a pipe.
func (w *Writer) Rewind(size int64) error {
	if w.size == size || w.file == nil {
		return nil
	}
	w.size = size
	err := w.file.Truncate(size)
	if err == nil {
		_, err = w.file.Seek(size, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("cutting off an incomplete record: %w", err)
	}
	return nil
}

// Checkpoint makes the records written so far readable by perf, which refuses a file without the
// size of its data and without a table of sections after them. It does nothing on a pipe.
func (w *Writer) Checkpoint() error {
	if w.file == nil || w.complete {
		return nil
	}
	if _, err := w.file.WriteAt(w.appendTable(nil), w.size); err != nil {
		return fmt.Errorf("writing the table of sections: %w", err)
	}
	w.hdr.data.size = uint64(w.size) - w.hdr.data.off
	w.complete = true
	err := w.writeHeader()
	w.hdr.data.size = 0
	return err
}

// reopen marks the file as unfinished before its end changes.
func (w *Writer) reopen() error {
	if !w.complete {
		return nil
	}
	w.complete = false
	return w.writeHeader()
}

func (w *Writer) writeHeader() error {
	if _, err := w.file.WriteAt(w.hdr.append(nil), 0); err != nil {
		return fmt.Errorf("writing the file header: %w", err)
	}
	return nil
}

// Close finishes the file with the sections known at the end. If Close fails, the file
// stays readable up to the end of its data, like an unfinished one. On a pipe, Close omits
// these sections, since the reader would need them earlier.
func (w *Writer) Close(late []Section) error {
	if w.file == nil {
		return nil
	}
	if err := w.reopen(); err != nil {
		return err
	}
	data := uint64(w.size) - w.hdr.data.off
	// The table follows the data, the sections follow the table.
	features := w.hdr.features
	for _, s := range late {
		if _, early := w.sections[s.Feature]; !early && !slices.Contains(lateFeatures, s.Feature) {
			return fmt.Errorf("writing the feature sections: feature %d belongs before the data", s.Feature)
		}
		features.set(s.Feature)
	}
	base := uint64(w.size)
	b := make([]byte, len(features.list())*sectionSize)
	for _, s := range late {
		b = w.place(b, base, s)
	}
	w.appendTable(b[:0])
	if err := w.Write(b); err != nil {
		return fmt.Errorf("writing the feature sections: %w", err)
	}
	w.hdr.data.size = data
	return w.writeHeader()
}
