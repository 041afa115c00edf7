// Package format turns the bytes of a perf.data file into records and back.
//
// It answers one question: what do these bytes say? It knows the file header,
// the attributes with their ids, the feature sections, the tracepoint formats
// and every record that a recording produces, and it yields the records in
// time order. What the records mean together (whose address was it, what is
// its name) is left to symbolize/replay and symbolize; which events to open,
// and when, to record.
//
// The layout of the file (tools/perf/Documentation/perf.data-file-format.txt):
//
//	┌────────┬───────────────┬──────────┬──────────────┬───────────────┬──────────┐
//	│ header │ attrs and ids │ sections │ early table¹ │ data: records │ sections │ …
//	└────────┴───────────────┴──────────┴──────────────┴───────────────┴──────────┘
//
// The table of the feature sections stands right behind the data; a section
// may lie anywhere. ¹ gperf writes what it knows at the start before the data,
// closed by a table of its own, so that a recording that was killed, and whose
// data.size is therefore still 0, keeps its tracepoint formats.
//
// In pipe mode, of which no part is read twice, a header of 16 bytes is followed
// by records alone: those that perf makes itself say first what attrs and sections
// say in file mode. A directory has a file, data, of file mode, and others of
// records alone. Either byte order can be read; gperf writes little-endian files.
//
// On its way to the caller a record passes
//
//	source ─▶ scanner ─▶ part ─▶ Reader
//	bytes     records    in time  of all parts
//	             ▲         │
//	             └ inflater ┘ what COMPRESSED records hold
//
// What cannot be used is passed over and counted (Reader.Skipped); an *Error says
// where it lies.
//
// Times are in ns of the recording's clock, sizes in bytes. Slices that a
// decoded record holds are borrowed from the file's buffer: they stay valid,
// and are to be left unchanged.
package format
