// Package archive answers "what of a recording's files is in one file, and how does
// it get there?": it packs a recording and all that names its addresses, and opens
// the result as a tree of files in which package dso finds what it would have found
// on the recording machine.
//
// An archive is a zip file, which other tools unpack to a directory for --symfs and
// perf's --buildid-dir. It has, in perf's and distributions' own layout,
//
//	perf.data                                  the recording; perf.data/data, … of a directory
//	.debug/.build-id/xx/yyyy…/elf              a file with that build ID
//	.debug/.build-id/xx/yyyy…/debug            another with its symbols or debug information
//	.debug/.build-id/xx/yyyy…/vdso             the vdso
//	.debug/[kernel.kallsyms]/xxyyyy…/kallsyms  symbols of the kernel, its modules and BPF programs
//	.debug/[kernel.kcore]/xxyyyy…/kcore        code of the kernel, its modules and BPF programs
//	usr/lib/debug/…                            what of debug information has no build ID, or no room above
//	tmp/perf-PID.map, …                        whatever else is found by its path
//	.pieces                                    where the pieces of the others lie
//
// So a file with a build ID is in it once, whatever paths it was recorded under, and
// has its names under all of them, also where it was gone from one.
//
// Members are deflated in pieces that know nothing of each other, so that any part
// of any member can be read at once, without unpacking the rest and without taking
// more memory than some pieces have.
package archive

import (
	"bytes"
	"errors"
)

// Errors of opening an archive; test for them with errors.Is.
var (
	ErrNoRecording = errors.New("zip file without perf.data: not an archive of a recording")
	ErrDamaged     = errors.New("damaged archive")
	ErrRepacked    = errors.New("packed by another tool")
)

const (
	recording = "perf.data"
	index     = ".pieces"
)

// magic is how zip files begin: with the header of a first member, for an empty one
// the end of the directory.
var magics = [...]string{"PK\x03\x04", "PK\x05\x06"}

// Is reports whether a file that begins with head, 4 bytes or more, may be an archive.
func Is(head []byte) bool {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m)) {
			return true
		}
	}
	return false
}
