// Package archive packs a recording with the files that name its addresses, opens recordings, whether files,
// directories, pipes, archives or any of these on an HTTP server, and opens an archive as a tree of files, in which
// package dso finds the same files as on the recorded machine.
//
// An archive is a zip file, which other tools unpack to a directory for --symfs and perf's --buildid-dir. The
// members follow the layout of perf and distributions:
//
//	perf.data                                  the recording; perf.data/data, … of a directory
//	.debug/.build-id/xx/yyyy…/elf              a file with this build ID
//	.debug/.build-id/xx/yyyy…/debug            symbols or debug information of the file, from another file
//	.debug/.build-id/xx/yyyy…/vdso             the vdso
//	.debug/.inode/MAJOR:MINOR-INODE-GEN/elf    a file without build ID, if another file was recorded at the path
//	.debug/[kernel.kallsyms]/xxyyyy…/kallsyms  symbols of the kernel, modules and BPF programs
//	.debug/[kernel.kcore]/xxyyyy…/kcore        code of the kernel, modules and BPF programs
//	.debug/.lines/xxyyyy….srcline              source lines of the hit addresses (symbolize/srcline)
//	usr/lib/debug/…                            debug information without a build ID, or a second file of one
//	tmp/perf-PID.map, …                        other files, by path
//	.pieces                                    the positions of the other members' pieces
//
// A file with a build ID is packed once, whatever paths were recorded for it. All of
// these paths lead to it, also those that do not exist any more.
//
// Members are deflated in independent pieces: any part of a member can be read without
// unpacking the rest, in the memory of a few pieces.
package archive

import (
	"bytes"
	"errors"
	"os"
	"slices"
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

// magics are the beginnings of zip files: the header of the first member or, if there is none,
// the end of the directory.
var magics = []string{"PK\x03\x04", "PK\x05\x06"}

// Is reports whether a file may be an archive. head is the beginning of the file, 4 bytes or more.
func Is(head []byte) bool {
	return slices.ContainsFunc(magics, func(m string) bool { return bytes.HasPrefix(head, []byte(m)) })
}

// Check returns the error of opening the archive at path.
func Check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = Open(f, st.Size())
	return err
}
