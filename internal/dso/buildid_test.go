package dso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

func TestBuildIDFromNotes(t *testing.T) {
	id := []byte("0123456789abcdefghij")
	// .note.gnu.property as linkers make it: 8-byte alignment.
	property := slices.Concat(
		binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 4), 12),
			5),
		[]byte("GNU\x00"), make([]byte, 12), make([]byte, 4))
	for _, c := range []struct {
		name  string
		notes []byte
		align uint64
		want  []byte
	}{
		{"alone", gnuNote(id), 4, id},
		{"after others", slices.Concat(note("Linux\x00", 0x101, []byte{0}), note("stapsdt\x00", 3, []byte("odd")), gnuNote(id)), 4, id},
		{"8-byte alignment", append(bytes.Clone(property), gnuNote(id)...), 8, id},
		{"short", gnuNote(id[:8]), 4, id[:8]},
		{"longer than kept", gnuNote(append(bytes.Clone(id), "more"...)), 4, id},
		{"another name", note("Go\x00\x00", 3, id), 4, nil},
		{"another type", note("GNU\x00", 1, id), 4, nil},
		{"cut short", gnuNote(id)[:30], 4, nil},
		{"sizes that overflow", bytes.Repeat([]byte{0xff}, 64), 4, nil},
		{"nothing", nil, 4, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := buildIDFromNotes(c.notes, binary.LittleEndian, c.align); !bytes.Equal(got.Bytes(), c.want) {
				t.Errorf("got %q, want %q", got.Bytes(), c.want)
			}
		})
	}
	big := slices.Concat(binary.BigEndian.AppendUint32(
		binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 4), 20), 3), []byte("GNU\x00"), id)
	if got := buildIDFromNotes(big, binary.BigEndian, 4); !bytes.Equal(got.Bytes(), id) {
		t.Errorf("big-endian: got %q, want %q", got.Bytes(), id)
	}
}

func TestBuildIDText(t *testing.T) {
	id := NewBuildID([]byte{0xde, 0xad, 0x00, 0x0f})
	if id.String() != "dead000f" {
		t.Errorf("String() = %q, want dead000f", id)
	}
	if back, err := ParseBuildID("DEAD000f"); err != nil || back != id {
		t.Errorf("ParseBuildID = %v, %v, want %v", back, err, id)
	}
	for _, bad := range []string{"xy", "abc", "00112233445566778899aabbccddeeff0011223344"} {
		t.Run(bad, func(t *testing.T) {
			if id, err := ParseBuildID(bad); err == nil {
				t.Errorf("ParseBuildID(%q) = %v, want an error", bad, id)
			}
		})
	}
	if !(BuildID{}).IsZero() || id.IsZero() || (BuildID{}).String() != "" {
		t.Error("the zero value is not the one that means none")
	}
}

func TestBuildIDMatches(t *testing.T) {
	short := NewBuildID([]byte("8 bytes!"))
	padded := NewBuildID(append([]byte("8 bytes!"), make([]byte, 12)...))
	for _, c := range []struct {
		a, b BuildID
		want bool
	}{
		{short, short, true},
		{short, padded, true},
		{padded, short, true},
		{short, NewBuildID([]byte("8 bytes?")), false},
		{short, BuildID{}, false},
		{BuildID{}, BuildID{}, false}, // two unknown files are not the same file
	} {
		t.Run(fmt.Sprintf("%q, %q", c.a, c.b), func(t *testing.T) {
			if got := c.a.Matches(c.b); got != c.want {
				t.Errorf("%q matches %q = %t, want %t", c.a, c.b, got, c.want)
			}
		})
	}
}

func TestBuildIDPlaces(t *testing.T) {
	id := []byte("0123456789abcdefghij")
	section := func(name string) []byte {
		return elfFile{sections: []elfSection{{name: name, typ: elf.SHT_NOTE, data: gnuNote(id)}}}.bytes()
	}
	for name, b := range map[string][]byte{
		".note.gnu.build-id": section(".note.gnu.build-id"),
		".notes":             section(".notes"), // vmlinux
		".note":              section(".note"),  // vdso
		"PT_NOTE without sections": sectionless(append(elfFile{progs: []elf.Prog64{{
			Type: uint32(elf.PT_NOTE), Off: 64 + 56 + 11 + 2*64, Filesz: uint64(len(gnuNote(id))), Align: 4,
		}}}.bytes(), gnuNote(id)...)),
	} {
		t.Run(name, func(t *testing.T) {
			if got := imageOf(t, b).BuildID(); !bytes.Equal(got.Bytes(), id) {
				t.Errorf("got %q, want %q", got.Bytes(), id)
			}
		})
	}
}

func TestBuildIDOf(t *testing.T) {
	if _, err := BuildIDOf(writeFile(t, t.TempDir()+"/x", withID("", true))); !errors.Is(err, ErrNoBuildID) {
		t.Errorf("file without an ID: error %v, want ErrNoBuildID", err)
	}
	if _, err := BuildIDOf(writeFile(t, t.TempDir()+"/x", []byte("#!/bin/sh\n"))); !errors.Is(err, ErrNotELF) {
		t.Errorf("script: error %v, want ErrNotELF", err)
	}
	if _, err := BuildIDOf(t.TempDir()); !errors.Is(err, errNotRegular) {
		t.Errorf("directory: error %v, want ErrNotRegular", err)
	}
	if _, err := BuildIDOf("/no/such/file"); !errors.Is(err, ErrNoFile) {
		t.Errorf("no file: error %v, want ErrNoFile", err)
	}
}

// readelf and this package must read the same ID from real binaries.
func TestBuildIDAgainstReadelf(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is not installed (package binutils)")
	}
	re := regexp.MustCompile(`Build ID: ([0-9a-f]+)`)
	compared := 0
	for _, path := range []string{"/bin/sh", "/bin/ls", "/usr/bin/perf", "/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/aarch64-linux-gnu/libc.so.6", "/usr/bin/python3"} {
		out, err := exec.Command(readelf, "-n", path).Output()
		m := re.FindSubmatch(out)
		if err != nil || m == nil {
			continue
		}
		compared++
		if id, err := BuildIDOf(path); err != nil || id.String() != string(m[1]) {
			t.Errorf("%s: got %s, %v, readelf says %s", path, id, err, m[1])
		}
	}
	if compared == 0 {
		t.Skip("none of the binaries tried has a build ID")
	}
}

func TestKernelBuildID(t *testing.T) {
	id, err := KernelBuildID()
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrNoBuildID) {
		t.Skip(err)
	}
	if err != nil || len(id.Bytes()) < 8 {
		t.Errorf("got %q, %v", id, err)
	}
}
