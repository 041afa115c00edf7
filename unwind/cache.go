package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"gperf/symbolize/dso"
)

// Cache keeps tables on disk, one file for each build ID. It may be used by
// several goroutines and processes: files appear whole, by rename, and one that
// is damaged counts as absent. A nil Cache keeps nothing.
//
// A file is a header of cacheHeader bytes, then the table's rules, pages and
// rows as they lie in memory, little-endian:
//
//	 0  magic, format version
//	 8  CRC-32C of all that follows it
//	12  length of the build ID
//	16  build ID, 20 bytes, padded with zeros
//	40  Base
//	48  number of rules, pages, rows
//	60  Stats
type Cache struct {
	Dir   string
	Limit int64 // bytes that the files may take together; 0 means DefaultCacheLimit

	mu  sync.Mutex
	err error
}

// DefaultCacheLimit is enough for the tables of some thousand DSOs.
const DefaultCacheLimit = 1 << 30

const (
	cacheMagic  = "gperfuw\x02" // the last byte is the version: of this format, and of what Build makes
	cacheHeader = 80
	cacheMax    = maxSection
	cacheSuffix = ".table"
)

// ErrCache is what is wrong with a file that is not a whole, valid table of this
// version.
var ErrCache = errors.New("not a valid cached table")

// NewCache returns the user's cache: $XDG_CACHE_HOME/gperf/unwind, or
// ~/.cache/gperf/unwind.
func NewCache() (*Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("unwind cache: %w", err)
	}
	return &Cache{Dir: filepath.Join(dir, "gperf", "unwind")}, nil
}

// Build returns the table of im out of the cache, or makes it and puts it there.
// That it cannot be put there costs time the next time, nothing else: see Err.
func (c *Cache) Build(im *dso.Image) (*Table, error) {
	if t, err := c.Load(im.BuildID()); err == nil {
		return t, nil
	}
	t, err := Build(im)
	if err != nil {
		return nil, err
	}
	if err := c.Store(t); err != nil {
		c.mu.Lock()
		c.err = cmpErr(c.err, err)
		c.mu.Unlock()
	}
	return t, nil
}

// Err returns the first error of putting a table into the cache.
func (c *Cache) Err() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func cmpErr(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

func (c *Cache) path(id dso.BuildID) string { return filepath.Join(c.Dir, id.String()+cacheSuffix) }

// Load returns the table of a build ID. The error is fs.ErrNotExist or ErrCache
// where that is the cause.
func (c *Cache) Load(id dso.BuildID) (*Table, error) {
	if c == nil || id.IsZero() {
		return nil, fs.ErrNotExist
	}
	path := c.path(id)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("load unwind table: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < cacheHeader || st.Size() > cacheMax {
		return nil, fmt.Errorf("load unwind table %s: %w", path, ErrCache)
	}
	b := aligned(int(st.Size()))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("load unwind table %s: %w", path, err)
	}
	t, err := decodeTable(b)
	if err == nil && t.BuildID != id {
		err = fmt.Errorf("build ID %v: %w", t.BuildID, ErrCache)
	}
	if err != nil {
		return nil, fmt.Errorf("load unwind table %s: %w", path, err)
	}
	if now := time.Now(); now.Sub(st.ModTime()) > time.Hour {
		os.Chtimes(path, now, now) // the oldest go first; if it cannot be, they go too early
	}
	return t, nil
}

// Store puts a table into the cache, unless it has no build ID.
func (c *Cache) Store(t *Table) error {
	if c == nil || t.BuildID.IsZero() || !littleEndian {
		return nil
	}
	if err := c.store(t); err != nil {
		return fmt.Errorf("store unwind table: %w", err)
	}
	return nil
}

func (c *Cache) store(t *Table) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.Dir, "tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	_, err = f.Write(encodeTable(t))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), c.path(t.BuildID)); err != nil {
		return err
	}
	return c.evict()
}

// evict removes the files that were not used for the longest time, down to three
// quarters of the limit, if they are more than it; and what a killed process
// left half written.
func (c *Cache) evict() error {
	limit := c.Limit
	if limit == 0 {
		limit = DefaultCacheLimit
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var size int64
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue // gone meanwhile
		}
		switch {
		case strings.HasSuffix(st.Name(), cacheSuffix):
			files = append(files, st)
			size += st.Size()
		case strings.HasPrefix(st.Name(), "tmp-") && time.Since(st.ModTime()) > time.Hour:
			os.Remove(filepath.Join(c.Dir, st.Name()))
		}
	}
	if size <= limit {
		return nil
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, st := range files {
		if size <= limit/4*3 {
			break
		}
		if err := os.Remove(filepath.Join(c.Dir, st.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		size -= st.Size()
	}
	return nil
}

// littleEndian: the machine's numbers can be written as they are.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// aligned returns n bytes that begin at a multiple of 8.
func aligned(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)[:n]
}

// bytesOf returns the memory of s.
func bytesOf[T Rule | Page | Row](s []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// viewOf returns the first n elements in b and what follows them. b is aligned
// and long enough.
func viewOf[T Rule | Page | Row](b []byte, n int) ([]T, []byte) {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), b[n*int(unsafe.Sizeof(z)):]
}

func encodeTable(t *Table) []byte {
	b := make([]byte, cacheHeader, cacheHeader+t.Bytes())
	copy(b, cacheMagic)
	b[12] = byte(copy(b[16:36], t.BuildID.Bytes()))
	le := binary.LittleEndian
	le.PutUint64(b[40:], t.Base)
	for i, n := range []int{len(t.Rules), len(t.Pages), len(t.Rows)} {
		le.PutUint32(b[48+4*i:], uint32(n))
	}
	for i, n := range []uint32{t.Stats.FDEs, t.Stats.Damaged, t.Stats.Outside, t.Stats.Unsupported} {
		le.PutUint32(b[60+4*i:], n)
	}
	b = append(b, bytesOf(t.Rules)...)
	b = append(b, bytesOf(t.Pages)...)
	b = append(b, bytesOf(t.Rows)...)
	sum(b)
	return b
}

// sum writes the checksum.
func sum(b []byte) {
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
}

// decodeTable returns the table that b holds, which is aligned and from then on
// the table's. Nothing in it is trusted.
func decodeTable(b []byte) (*Table, error) {
	le := binary.LittleEndian
	switch {
	case len(b) < cacheHeader || string(b[:8]) != cacheMagic || b[12] > dso.BuildIDMax:
		return nil, fmt.Errorf("header: %w", ErrCache)
	case le.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli):
		return nil, fmt.Errorf("checksum: %w", ErrCache)
	case !littleEndian:
		return nil, fmt.Errorf("byte order: %w", ErrCache)
	}
	rules, pages, rows := le.Uint32(b[48:]), le.Uint32(b[52:]), le.Uint32(b[56:])
	if cacheHeader+uint64(rules)*16+uint64(pages)*8+uint64(rows)*4 != uint64(len(b)) {
		return nil, fmt.Errorf("size: %w", ErrCache)
	}
	t := &Table{
		BuildID: dso.NewBuildID(b[16 : 16+b[12]]),
		Base:    le.Uint64(b[40:]),
		Stats:   Stats{le.Uint32(b[60:]), le.Uint32(b[64:]), le.Uint32(b[68:]), le.Uint32(b[72:])},
	}
	rest := b[cacheHeader:]
	t.Rules, rest = viewOf[Rule](rest, int(rules))
	t.Pages, rest = viewOf[Page](rest, int(pages))
	t.Rows, _ = viewOf[Row](rest, int(rows))
	if !t.valid() {
		return nil, fmt.Errorf("contents: %w", ErrCache)
	}
	return t, nil
}

// valid reports whether the table is as Build makes it, so that a lookup in it,
// here or in the kernel, stays within it.
func (t *Table) valid() bool {
	if len(t.Rules) == 0 || len(t.Rules) > maxRules+1 || t.Rules[0] != (Rule{}) || len(t.Pages) > maxPages {
		return false
	}
	for _, r := range t.Rules {
		if r.CFA >= numCFA || r.RA >= numRA || r.FP >= numFP {
			return false
		}
	}
	next, most := uint64(0), uint16(len(t.Rules)-1)
	for _, p := range t.Pages {
		if uint64(p.First) != next || p.N == 0 || uint64(p.N) > uint64(len(t.Rows))-next {
			return false
		}
		rows := t.Rows[p.First : p.First+p.N]
		if rows[0].Off != 0 || rows[0].Rule > most {
			return false
		}
		last := uint16(0)
		for _, r := range rows[1:] {
			if r.Off <= last || r.Rule > most {
				return false
			}
			last = r.Off
		}
		next += uint64(p.N)
	}
	return next == uint64(len(t.Rows))
}
