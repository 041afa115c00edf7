package dso

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gperf/internal/untrusted"
)

// BuildIDMax is the length to which perf.data truncates a build ID, in bytes (BUILD_ID_SIZE in
// tools/perf/util/build-id.h).
const BuildIDMax = 20

// BuildID identifies the contents of a binary: the first 20 bytes of the descriptor of the NT_GNU_BUILD_ID note. It
// is comparable; the zero value means none.
//
// The BuildID of a file recorded without build ID may contain the file's Inode, which a Locator compares, because
// files at the same path may differ. For all methods but Inode there is no build ID.
type BuildID struct {
	n     uint8
	b     [BuildIDMax]byte
	inode Inode
}

// NewBuildID returns the build ID with these bytes. It drops all after the first 20.
func NewBuildID(b []byte) (id BuildID) {
	id.n = uint8(copy(id.b[:], b))
	return id
}

// ParseBuildID reads the hexadecimal form that String returns.
func ParseBuildID(s string) (BuildID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) > BuildIDMax {
		return BuildID{}, fmt.Errorf("build id %q: not up to %d bytes in hex", s, BuildIDMax)
	}
	return NewBuildID(b), nil
}

// Bytes returns a copy of the ID's bytes, nil for none.
func (id BuildID) Bytes() []byte { return bytes.Clone(id.b[:id.n]) }

// IsZero reports whether there is no build ID.
func (id BuildID) IsZero() bool { return id.n == 0 }

// String returns the ID in lower-case hexadecimal, "" for none.
func (id BuildID) String() string { return hex.EncodeToString(id.b[:id.n]) }

// Matches reports whether both identify the same binary. It ignores trailing zeros: old recorders padded short IDs with
// zeros to 20 bytes (dso__build_id_equal in tools/perf/util/dso.c). A zero BuildID matches nothing.
func (id BuildID) Matches(other BuildID) bool { return id.b == other.b && id.n != 0 && other.n != 0 }

// Errors of finding a file; test for them with errors.Is.
var (
	ErrNoFile     = errors.New("no such file")
	errNotRegular = untrusted.ErrNotRegular
	ErrNotELF     = errors.New("not an ELF file")
	ErrNoBuildID  = errors.New("no build id")
	ErrMismatch   = errors.New("build id mismatch")
)

// ntGNUBuildID is the type of the note with the name "GNU" (elf.h).
const ntGNUBuildID = 3

// buildIDFromNotes returns the GNU build ID among ELF notes, the contents of a PT_NOTE segment, /sys/kernel/notes or a
// module's notes file. Names and descriptors are padded to align bytes: 8 in segments of that alignment, otherwise 4.
func buildIDFromNotes(notes []byte, order binary.ByteOrder, align uint64) BuildID {
	if align != 8 {
		align = 4
	}
	const header = 12
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(notes) >= header {
		namesz, descsz := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		kind := order.Uint32(notes[8:])
		desc := pad(header + namesz)
		if desc > uint64(len(notes)) || descsz > uint64(len(notes))-desc {
			break
		}
		if kind == ntGNUBuildID && string(notes[header:header+namesz]) == "GNU\x00" {
			return NewBuildID(notes[desc : desc+descsz])
		}
		notes = notes[min(desc+pad(descsz), uint64(len(notes))):]
	}
	return BuildID{}
}

// BuildIDOf returns the build ID of the ELF file at path.
func BuildIDOf(path string) (BuildID, error) {
	im, err := Open(path)
	if err != nil {
		return BuildID{}, err
	}
	defer im.Close()
	if im.id.IsZero() {
		return BuildID{}, fmt.Errorf("build id of %s: %w", path, ErrNoBuildID)
	}
	return im.id, nil
}

// KernelBuildID returns the running kernel's build ID, from /sys/kernel/notes.
func KernelBuildID() (BuildID, error) { return sysfsBuildID("/sys/kernel/notes") }

// ModuleBuildID returns the build ID of a loaded kernel module. The module's name may be in brackets, as in kallsyms.
func ModuleBuildID(name string) (BuildID, error) {
	if len(name) > 2 && name[0] == '[' && name[len(name)-1] == ']' {
		name = name[1 : len(name)-1]
	}
	return sysfsBuildID(filepath.Join("/sys/module", filepath.Base(name), "notes/.note.gnu.build-id"))
}

func sysfsBuildID(path string) (BuildID, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return BuildID{}, fmt.Errorf("build id: %w", err)
	}
	if id := buildIDFromNotes(b, binary.NativeEndian, 4); !id.IsZero() {
		return id, nil
	}
	return BuildID{}, fmt.Errorf("build id of %s: %w", path, ErrNoBuildID)
}
