// Package format turns the bytes of a perf.data file into records and back.
//
// It knows the file header, the attributes with their ids, the feature sections,
// the tracepoint formats and every record that a recording produces, and it
// yields the records in time order. internal/session finds the thread and DSO of
// an address, symbolize its name, and record opens the events.
//
// The layout of the file (tools/perf/Documentation/perf.data-file-format.txt):
//
//	┌────────┬───────────────┬──────────┬──────────────┬───────────────┬──────────┐
//	│ header │ attrs and ids │ sections │ early table¹ │ data: records │ sections │ …
//	└────────┴───────────────┴──────────┴──────────────┴───────────────┴──────────┘
//
// The table of the feature sections follows the data; a section may lie
// anywhere. ¹ gperf writes the sections that it knows at the start before the
// data, with a table of their own after them. A killed recording, whose data.size
// is still 0, so keeps its tracepoint formats.
//
// In pipe mode a header of 16 bytes is followed by records only, and no part is
// read twice. The first records, which perf synthesizes, carry the attrs and
// sections. A perf.data directory has one file in file mode, data, and others
// that hold records only. gperf reads both byte orders and writes little-endian.
//
// On its way to the caller a record passes
//
//	source ─▶ scanner ─▶ part ─▶ Reader
//	bytes     records    in time  of all parts
//	             ▲         │
//	             └ inflater ┘ the content of COMPRESSED records
//
// Unusable records are skipped and counted (Reader.Skipped); an *Error says
// where they lie.
//
// Times are in ns of the recording's clock, sizes in bytes. Slices that a
// decoded record holds are borrowed from the file's buffer: they stay valid, and
// the caller must not change them.
package format
