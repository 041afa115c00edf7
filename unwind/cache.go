package unwind

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
)

// Cache caches tables on disk: see cache.Dir. A nil Cache stores nothing.
//
// A build ID is a claim of its file, and any user can write a file that claims the build ID of another one. So a table
// belongs to the bytes from which Build made it: a cached table is used for a file that has the same bytes there.
//
// The key of a table is the digest of its file's size, ELF headers and build ID. A file contains, little-endian, a
// header of tableHeader bytes, then the table's rules, pages and rows as in memory, then the ranges of the file that
// Build read (readLog):
//
//	 0  Base
//	 8  number of rules, pages, rows
//	20  Stats
//	36  0
//	40  digest of the bytes that Build read, 32 bytes
type Cache struct {
	Dir   string
	Limit int64 // of the total size of the files, in bytes; 0 means defaultCacheLimit

	mu  sync.Mutex
	err error
}

// defaultCacheLimit is enough for the tables of some thousand DSOs, in bytes.
const defaultCacheLimit = 1 << 30

const (
	cacheMagic  = "gperfuw\x0d" // the last byte is the version of this format and of Build: change it with either
	tableHeader = 40 + sha256.Size
	cacheSuffix = ".table"
)

// NewCache returns the user's cache: $XDG_CACHE_HOME/gperf/unwind, or
// ~/.cache/gperf/unwind.
func NewCache() (*Cache, error) {
	dir, err := cache.Path("unwind")
	if err != nil {
		return nil, fmt.Errorf("unwind cache: %w", err)
	}
	return &Cache{Dir: dir}, nil
}

// Files returns the directory of the tables.
func (c *Cache) Files() *cache.Dir {
	if c == nil {
		return nil
	}
	return &cache.Dir{Path: c.Dir, Suffix: cacheSuffix, Magic: cacheMagic, Limit: cmp.Or(c.Limit, defaultCacheLimit)}
}

// minCached is the smallest size of a cached table, in bytes. Building a smaller one takes about a millisecond, as long
// as storing it.
const minCached = 64 << 10

// Get returns the table of im from the cache, or builds it. save, unless it is nil, stores the table: the caller calls
// it when that delays nothing. An error of save affects only later runs: see Err.
func (c *Cache) Get(im *dso.Image) (t *Table, save func(), err error) {
	if c == nil {
		t, err = Build(im)
		return t, nil, err
	}
	log := newReadLog(im)
	logged, err := dso.NewImage(log, int64(im.Size), im.Path)
	if err != nil {
		return nil, nil, err
	}
	key := dso.NewBuildID(log.digest()[:dso.BuildIDMax])
	if t, err := c.load(key, im); err == nil {
		return t, nil, nil
	}
	if t, err = Build(logged); err != nil || !Cacheable(t) || log.failed {
		return t, nil, err
	}
	log.closeRange()
	return t, func() { c.save(key, t, log) }, nil
}

// Cacheable reports whether the cache stores a table: one that takes long to build.
func Cacheable(t *Table) bool { return t.Bytes() >= minCached }

// save stores a table.
func (c *Cache) save(key dso.BuildID, t *Table, log *readLog) {
	if err := c.store(key, t, log); err != nil {
		c.mu.Lock()
		c.err = cmp.Or(c.err, err)
		c.mu.Unlock()
	}
}

// Build returns the table of im from the cache, or builds it and stores it unless it is small.
func (c *Cache) Build(im *dso.Image) (*Table, error) {
	t, save, err := c.Get(im)
	if save != nil {
		save()
	}
	return t, err
}

// Err returns the first error of storing a table.
func (c *Cache) Err() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// errOther is the error for a table of another file, whose headers and build ID are the same.
var errOther = errors.New("made from other bytes")

// load returns the table of im, whose key is key. The error wraps fs.ErrNotExist, cache.ErrDamaged or errOther if that
// is the cause.
func (c *Cache) load(key dso.BuildID, im *dso.Image) (*Table, error) {
	b, err := c.Files().Load(key)
	if err != nil {
		return nil, fmt.Errorf("load unwind table: %w", err)
	}
	t, digest, ranges, err := decodeTable(b)
	if err != nil {
		return nil, fmt.Errorf("load unwind table of %s: %w", im.Path, err)
	}
	if now, ok := replay(im, ranges); !ok || !bytes.Equal(now, digest) {
		return nil, fmt.Errorf("load unwind table of %s: %w", im.Path, errOther)
	}
	return t, nil
}

// store stores the table that was built from the bytes that log recorded.
func (c *Cache) store(key dso.BuildID, t *Table, log *readLog) error {
	if !littleEndian {
		return nil
	}
	if err := c.Files().Store(key, encodeTable(t, log.digest()), log.ranges); err != nil {
		return fmt.Errorf("store unwind table: %w", err)
	}
	return nil
}

// littleEndian reports whether this machine's numbers have the byte order of the files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// bytesOf returns the memory of s.
func bytesOf[T Rule | Page | Row](s []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(z)))
}

// viewOf returns the first n elements in b and the rest. b must be aligned and long enough.
func viewOf[T Rule | Page | Row](b []byte, n int) ([]T, []byte) {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), b[n*int(unsafe.Sizeof(z)):]
}

func encodeTable(t *Table, digest []byte) []byte {
	b := make([]byte, tableHeader, tableHeader+t.Bytes())
	le := binary.LittleEndian
	le.PutUint64(b, t.Base)
	for i, n := range []int{len(t.Rules), len(t.Pages), len(t.Rows)} {
		le.PutUint32(b[8+4*i:], uint32(n))
	}
	for i, n := range []uint32{t.Stats.FDEs, t.Stats.Damaged, t.Stats.Outside, t.Stats.Unsupported} {
		le.PutUint32(b[20+4*i:], n)
	}
	copy(b[40:], digest)
	b = append(b, bytesOf(t.Rules)...)
	b = append(b, bytesOf(t.Pages)...)
	return append(b, bytesOf(t.Rows)...)
}

// decodeTable returns the table in b, which must be aligned, and the digest and the ranges of its source bytes.
// They keep b. decodeTable checks all contents but the ranges.
func decodeTable(b []byte) (t *Table, digest, ranges []byte, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < tableHeader:
		return nil, nil, nil, fmt.Errorf("header: %w", cache.ErrDamaged)
	case !littleEndian:
		return nil, nil, nil, fmt.Errorf("byte order: %w", cache.ErrDamaged)
	}
	rules, pages, rows := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])
	if tableHeader+uint64(rules)*16+uint64(pages)*8+uint64(rows)*4 > uint64(len(b)) {
		return nil, nil, nil, fmt.Errorf("size: %w", cache.ErrDamaged)
	}
	t = &Table{
		Base:  le.Uint64(b),
		Stats: Stats{le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:])},
	}
	digest, rest := b[40:tableHeader], b[tableHeader:]
	t.Rules, rest = viewOf[Rule](rest, int(rules))
	t.Pages, rest = viewOf[Page](rest, int(pages))
	t.Rows, ranges = viewOf[Row](rest, int(rows))
	if !t.valid() {
		return nil, nil, nil, fmt.Errorf("contents: %w", cache.ErrDamaged)
	}
	return t, digest, ranges, nil
}

// valid reports whether the table has the structure of Build's tables, so that a lookup in Go or in the kernel stays
// inside it.
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
