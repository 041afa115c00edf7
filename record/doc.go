// Package record conducts a recording: Run records a target into a file.
//
// Options become attrs (options.go). Package perfevent opens their counters and rings, package
// synth describes the system before the recording, and package output writes the file. The recorder
// (record.go) then drains the rings until its context ends, the command exits or the threads
// exit. The samples come from one of several sources (source.go): the rings as they are; rings
// merged with the user stacks that BPF programs walk (package stacks); samples that BPF
// programs make (package programs).
//
// Package format owns the layout of the file, internal/dso the build IDs, and the caller
// flags, signals and advice: errors are typed (errors.go), warnings go to Options.Notice.
package record
