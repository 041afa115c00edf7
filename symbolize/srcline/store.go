package srcline

import (
	"encoding/binary"

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
	// The last byte is the version of this format and of the reader of DWARF: change it with either.
	return &cache.Dir{Path: dir, Suffix: ".srcline", Magic: "gperfsl\x03", Limit: 1 << 30}, nil
}

// store stores the tables in the cache, if there are new ones.
func (x *Index) store() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made == 0 || x.cache == nil || x.id.IsZero() {
		return nil
	}
	x.made = 0
	return x.cache.Store(x.id, x.encode()...)
}

// encode returns the contents of the cache's file, in parts.
func (x *Index) encode() [][]byte {
	le := binary.LittleEndian
	var b []byte
	for _, n := range [...]int{len(x.units), len(x.pieces), len(x.strings.b), 0} {
		b = le.AppendUint32(b, uint32(n))
	}
	tables := [][]byte{nil, x.strings.b}
	for _, u := range x.units {
		if u.partial {
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
