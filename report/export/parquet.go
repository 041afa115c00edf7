// This file writes Parquet files: a row for each sample, or for the equal samples of a minute, with its stack as a
// list of frames. Databases and data frames read the file as it is.
//
// Strings are in dictionaries, and pages are compressed. The memory is bounded by the distinct stacks and one row
// group.

package export

import (
	"io"
	"slices"

	pq "github.com/parquet-go/parquet-go"

	"gperf/format"
	"gperf/internal/parallel"
)

// maxFrames is how many frames a row group has, about: readers decode row groups as a whole.
const maxFrames = 4 << 20

// chunk is how many rows are converted at a time.
const chunk = 1024

// ParquetWriter writes the rows of recordings to one file.
type ParquetWriter struct {
	file    *pq.GenericWriter[any]
	columns []column // as in the file
	frames  int      // in the row group
}

// NewParquetWriter starts a file with the columns that the recordings need.
func NewParquetWriter(w io.Writer, recordings []*Rows) *ParquetWriter {
	columns, schema := layout(recordings)
	options := []pq.WriterOption{schema, pq.Compression(&pq.Zstd), pq.CreatedBy("gperf", "", ""),
		pq.DataPageVersion(1)} // some readers have no version 2
	for _, path := range schema.Columns() {
		if path[0] == framesName { // queries do not select rows by these bounds
			options = append(options, pq.SkipPageBounds(path...), pq.SkipPageStatistics(path...))
		}
	}
	return &ParquetWriter{columns: columns, file: pq.NewGenericWriter[any](w, options...)}
}

// Add writes the rows of one of the recordings. The result counts the skipped parts of its file.
func (w *ParquetWriter) Add(r *Rows) (format.Skipped, error) {
	for i := range w.columns {
		w.columns[i].start(r)
	}
	return r.Read(func(all []Row) error {
		for part := range slices.Chunk(all, chunk) {
			if err := w.write(r, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close completes the file.
func (w *ParquetWriter) Close() error { return w.file.Close() }

// write writes rows, the columns concurrently.
func (w *ParquetWriter) write(r *Rows, all []Row) error {
	writers := w.file.ColumnWriters()
	errs := make([]error, len(w.columns))
	parallel.Do(len(w.columns), func(i int) {
		w.columns[i].convert(r, all)
		_, errs[i] = writers[i].WriteRowValues(w.columns[i].values)
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for i := range all {
		w.frames += len(r.Stacks.Stacks[all[i].Stack])
	}
	if w.frames >= maxFrames {
		w.frames = 0
		return w.file.Flush()
	}
	return nil
}
