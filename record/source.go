package record

import "time"

// source is the source of samples, and of the side band in the same rings: rings as they are
// (perfevent.Source), overwritten rings (perfevent.Overwritten), rings merged with user stacks
// (stacks.Recorder), or with samples made by BPF programs (programs.Source).
type source interface {
	// Drain passes the records since its last call to write, and returns how many bytes they
	// took in the rings.
	Drain(write func([]byte) error) (int, error)
	// Pending returns the number of samples that are read, but wait to be written: they are
	// older than records that are written.
	Pending() int
	// Flush writes the pending samples of before a time.
	Flush(before time.Time, write func([]byte) error) error
}
