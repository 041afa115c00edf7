// Package cache stores data that gperf computed for a DSO below the user's cache directory, by build ID, or by a digest
// in the form of one.
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
	"gperf/internal/untrusted"
)

// Dir is a directory with one file per build ID. Goroutines and processes may use it at
// the same time: Store publishes complete files by rename, and Load rejects damaged ones.
// A nil Dir stores nothing.
//
// A file is a header of 40 bytes, little-endian, then the stored data:
//
//	 0  Magic
//	 8  CRC-32C of all that follows it
//	12  length of the build ID
//	16  build ID, 20 bytes, padded with zeros
type Dir struct {
	Path   string
	Suffix string // of the file names
	Magic  string // 8 bytes; the last is the version
	Limit  int64  // size of all files, in bytes
	// Open, if set, opens the files, for example files of an archive. The Dir only reads them then.
	Open func(path string) (fs.File, error)
}

// ErrDamaged is the error for a file that is incomplete or of another version.
var ErrDamaged = errors.New("not a valid cached file")

const (
	header  = 40
	maxFile = 1 << 30
)

// Path returns the directory of this name in gperf's cache: below $XDG_CACHE_HOME/gperf or
// ~/.cache/gperf.
func Path(name string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "gperf", name), nil
}

// File returns the path of the file for a build ID.
func (d *Dir) File(id dso.BuildID) string { return filepath.Join(d.Path, id.String()+d.Suffix) }

// Load returns the data stored for a build ID. The data's address is a multiple of 8. The error is fs.ErrNotExist,
// ErrDamaged or an I/O error.
func (d *Dir) Load(id dso.BuildID) ([]byte, error) {
	if d == nil || id.IsZero() {
		return nil, fs.ErrNotExist
	}
	path := d.File(id)
	f, err := d.open(path)
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
	if now := time.Now(); d.Open == nil && now.Sub(st.ModTime()) > time.Hour {
		os.Chtimes(path, now, now) // evict removes the oldest first; if Chtimes fails, this file goes too early
	}
	return b[header:], nil
}

func (d *Dir) open(path string) (fs.File, error) {
	if d.Open != nil {
		return d.Open(path)
	}
	return untrusted.Open(path)
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

// Store writes the pieces, one after another, for a build ID. It ignores a zero build
// ID.
func (d *Dir) Store(id dso.BuildID, pieces ...[]byte) error {
	if d == nil || id.IsZero() || d.Open != nil {
		return nil
	}
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.Path, "tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing after the rename
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

// The cache counts files after Limit/evictShare stored bytes on average. Counting after each Store would dominate
// the cost and grow with the number of files.
const evictShare = 16

// dueToEvict reports whether to count the files now. It decides at random, in proportion
// to the stored bytes, so that many short processes together count as often as a long one.
func (d *Dir) dueToEvict(pieces [][]byte) bool {
	size := int64(header)
	for _, p := range pieces {
		size += int64(len(p))
	}
	return rand.Int64N(d.Limit/evictShare+1) < size
}

// Write writes the file that Store stores to w, for a Dir with Open.
func (d *Dir) Write(w io.Writer, id dso.BuildID, pieces ...[]byte) error {
	return d.write(w, id, pieces)
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
		return fmt.Errorf("%d bytes exceed the limit of %d", size, maxFile)
	}
	binary.LittleEndian.PutUint32(h[8:], sum)
	for _, p := range append([][]byte{h}, pieces...) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// Drop removes the file for a build ID.
func (d *Dir) Drop(id dso.BuildID) {
	if d != nil && d.Open == nil {
		os.Remove(d.File(id)) // if it stays, the next Load rejects it again
	}
}

// files returns the files. It removes incomplete ones that killed processes left.
func (d *Dir) files() (list []fs.FileInfo, size int64, err error) {
	entries, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue // removed by another process
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

// evict removes the least recently used files, down to three quarters of the limit, if the
// files exceed the limit.
func (d *Dir) evict() error {
	files, size, err := d.files()
	if err != nil || size <= d.Limit {
		return err
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return d.remove(files, size-d.Limit/4*3)
}

// remove removes files in order until at least n bytes are freed.
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

// Size returns the number of files and the total size in bytes.
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

// aligned allocates n bytes at an address that is a multiple of 8.
func aligned(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)[:n]
}
