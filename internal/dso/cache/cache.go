// Package cache answers "what was worked out of this DSO before?": it keeps files
// by build ID below the user's cache directory.
package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"gperf/internal/dso"
)

// Dir is a folder with one file for each build ID. It may be used by several
// goroutines and processes: files appear whole, by rename, and one that is
// damaged counts as absent. A nil Dir keeps nothing.
//
// A file is a header of 40 bytes, little-endian, then what is kept:
//
//	 0  Magic
//	 8  CRC-32C of all that follows it
//	12  length of the build ID
//	16  build ID, 20 bytes, padded with zeros
type Dir struct {
	Path   string
	Suffix string // of the files' names
	Magic  string // 8 bytes; the last is the version
	Limit  int64  // bytes that the files may take together
}

// ErrDamaged: the file is incomplete, or of another version.
var ErrDamaged = errors.New("not a valid cached file")

const (
	header  = 40
	maxFile = 1 << 30
)

// Path returns the folder called name in the user's cache of gperf:
// $XDG_CACHE_HOME/gperf, or ~/.cache/gperf.
func Path(name string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "gperf", name), nil
}

// File returns the path of a build ID's file.
func (d *Dir) File(id dso.BuildID) string { return filepath.Join(d.Path, id.String()+d.Suffix) }

// Load returns the contents stored for a build ID, at an address that is a multiple
// of 8. The error is fs.ErrNotExist, ErrDamaged or another.
func (d *Dir) Load(id dso.BuildID) ([]byte, error) {
	if d == nil || id.IsZero() {
		return nil, fs.ErrNotExist
	}
	path := d.File(id)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < header || st.Size() > maxFile {
		return nil, fmt.Errorf("%s: %w", path, ErrDamaged)
	}
	b := aligned(int(st.Size()))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := d.check(b, id); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if now := time.Now(); now.Sub(st.ModTime()) > time.Hour {
		os.Chtimes(path, now, now) // the oldest go first; if it cannot be, they go too early
	}
	return b[header:], nil
}

func (d *Dir) check(b []byte, id dso.BuildID) error {
	switch {
	case string(b[:8]) != d.Magic || b[12] > dso.BuildIDMax:
		return fmt.Errorf("header: %w", ErrDamaged)
	case binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli):
		return fmt.Errorf("checksum: %w", ErrDamaged)
	case dso.NewBuildID(b[16:16+b[12]]) != id:
		return fmt.Errorf("build ID: %w", ErrDamaged)
	}
	return nil
}

// Store keeps the pieces, one after the other, for a build ID, unless that is zero.
func (d *Dir) Store(id dso.BuildID, pieces ...[]byte) error {
	if d == nil || id.IsZero() {
		return nil
	}
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.Path, "tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	err = d.write(f, id, pieces)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.File(id)); err != nil {
		return err
	}
	if !d.dueToEvict(pieces) {
		return nil
	}
	return d.evict()
}

// The cache counts its files after Limit/evictShare stored bytes on average.
// Counting after every stored file would dominate, and grow with the number of
// files.
const evictShare = 64

// dueToEvict returns whether it is time to count the files. That is drawn by lot,
// in proportion to what is stored, so that many short processes together count as
// often as a long one.
func (d *Dir) dueToEvict(pieces [][]byte) bool {
	size := int64(header)
	for _, p := range pieces {
		size += int64(len(p))
	}
	return rand.Int64N(d.Limit/evictShare+1) < size
}

func (d *Dir) write(w io.Writer, id dso.BuildID, pieces [][]byte) error {
	h := make([]byte, header)
	copy(h, d.Magic)
	h[12] = byte(copy(h[16:36], id.Bytes()))
	sum, size := crc32.Checksum(h[12:], castagnoli), header
	for _, p := range pieces {
		sum = crc32.Update(sum, castagnoli, p)
		size += len(p)
	}
	if size > maxFile {
		return fmt.Errorf("%d bytes are too many", size)
	}
	binary.LittleEndian.PutUint32(h[8:], sum)
	for _, p := range append([][]byte{h}, pieces...) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Drop removes a build ID's file.
func (d *Dir) Drop(id dso.BuildID) {
	if d != nil {
		os.Remove(d.File(id)) // the rest is found to be unusable again
	}
}

// files returns the files, and removes incomplete ones of killed processes.
func (d *Dir) files() (list []fs.FileInfo, size int64, err error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue // gone meanwhile
		}
		switch {
		case strings.HasSuffix(st.Name(), d.Suffix):
			list = append(list, st)
			size += st.Size()
		case strings.HasPrefix(st.Name(), "tmp-") && time.Since(st.ModTime()) > time.Hour:
			os.Remove(filepath.Join(d.Path, st.Name()))
		}
	}
	return list, size, err
}

// evict removes the files that were not used for the longest time, down to three
// quarters of the limit, if they are more than it.
func (d *Dir) evict() error {
	files, size, err := d.files()
	if err != nil || size <= d.Limit {
		return err
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return d.remove(files, size-d.Limit/4*3)
}

// remove removes files from the first on, until they were n bytes at least.
func (d *Dir) remove(files []fs.FileInfo, n int64) error {
	for _, st := range files {
		if n <= 0 {
			break
		}
		if err := os.Remove(filepath.Join(d.Path, st.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		n -= st.Size()
	}
	return nil
}

// Size returns how many files there are, and how many bytes they take.
func (d *Dir) Size() (files int, bytes int64, err error) {
	list, bytes, err := d.files()
	return len(list), bytes, err
}

// Clear removes all files.
func (d *Dir) Clear() error {
	files, size, err := d.files()
	if err != nil {
		return err
	}
	return d.remove(files, size)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// aligned returns n bytes that begin at a multiple of 8.
func aligned(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)[:n]
}
