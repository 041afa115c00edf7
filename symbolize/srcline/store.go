package srcline

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"slices"

	"gperf/internal/dso/cache"
)

// Format of an index on disk, little-endian:
//
//	u32    number of units, number of pieces, bytes of strings, 0
//	units  u32 bytes of the table, 0 if there is none
//	pieces u64 address, u32 owner
//	strings
//	tables
const (
	storeHeader = 16
	pieceSize   = 12
)

// NewCache returns the user's cache of indexes: $XDG_CACHE_HOME/gperf/srcline, or
// ~/.cache/gperf/srcline.
func NewCache() (*cache.Dir, error) {
	dir, err := cache.Path("srcline")
	if err != nil {
		return nil, err
	}
	return &cache.Dir{Path: dir, Suffix: suffix, Magic: magic, Limit: 1 << 30}, nil
}

// The last byte is the version of this format and of the reader of DWARF: change it with either.
const (
	suffix = ".srcline"
	magic  = "gperfsl\x03"
)

// PackedPath is the directory of indexes in an archive.
const PackedPath = ".debug/.lines"

// PackedCache returns the indexes in an archive, whose files open opens.
func PackedCache(open func(path string) (fs.File, error)) *cache.Dir {
	return &cache.Dir{Path: "/" + PackedPath, Suffix: suffix, Magic: magic, Open: open}
}

// Pack returns a file for PackedCache with the units that Lookup used, and its name. The file is nil if there is none.
func (x *Index) Pack() (name string, file []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.id.IsZero() || x.golang != nil || !slices.ContainsFunc(x.units, (*indexUnit).packs) {
		return "", nil
	}
	var b bytes.Buffer
	d := PackedCache(nil)
	if err := d.Write(&b, x.id, x.encode((*indexUnit).packs)...); err != nil {
		return "", nil
	}
	return path.Base(d.File(x.id)), b.Bytes()
}

// packs reports whether the unit was used.
func (u *indexUnit) packs() bool { return u.used.Load() && u.table != nil }

// store stores the tables in the cache, if there are new ones.
func (x *Index) store() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made == 0 || x.cache == nil {
		return nil
	}
	x.made = 0
	return x.cache.Store(x.key, x.encode(func(*indexUnit) bool { return true })...)
}

// encode returns the contents of the cache's file, in parts, with the tables of the units that keep chooses.
func (x *Index) encode(keep func(*indexUnit) bool) [][]byte {
	le := binary.LittleEndian
	var b []byte
	for _, n := range [...]int{len(x.units), len(x.pieces), len(x.strings.b), 0} {
		b = le.AppendUint32(b, uint32(n))
	}
	tables := [][]byte{nil, x.strings.b}
	for _, u := range x.units {
		if u.partial || !keep(u) {
			b = le.AppendUint32(b, 0)
			continue
		}
		b = le.AppendUint32(b, uint32(len(u.table)))
		tables = append(tables, u.table)
	}
	for _, p := range x.pieces {
		b = le.AppendUint32(le.AppendUint64(b, p.addr), uint32(p.owner))
	}
	tables[0] = b
	return tables
}

// decode reads an index from the contents of the cache's file. It returns false if these are corrupt.
func (x *Index) decode(b []byte) bool {
	if len(b) < storeHeader {
		return false
	}
	le := binary.LittleEndian
	units, pieces, strings := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
	b = b[storeHeader:]
	if units*4+pieces*pieceSize+strings > uint64(len(b)) || units > firstUnit {
		return false
	}
	sizes, b := b[:units*4], b[units*4:]
	list, b := b[:pieces*pieceSize], b[pieces*pieceSize:]
	x.strings.b, b = b[:strings:strings], b[strings:]
	x.units = make([]*indexUnit, units)
	all := make([]indexUnit, units)
	for i := range x.units {
		n := uint64(le.Uint32(sizes[4*i:]))
		if n > uint64(len(b)) {
			return false
		}
		x.units[i] = &all[i]
		if n > 0 {
			all[i].table, all[i].strings = table(b[:n:n]), x.strings.b
		}
		b = b[n:]
	}
	x.pieces = make([]piece, pieces)
	for i := range x.pieces {
		p := list[i*pieceSize:]
		x.pieces[i] = piece{le.Uint64(p), int32(le.Uint32(p[8:]))}
		if owner := x.pieces[i].owner; owner >= 0 && uint64(firstUnit-owner) >= units {
			return false
		}
	}
	return true
}
