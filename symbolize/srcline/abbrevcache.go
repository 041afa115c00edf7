package srcline

import "sync"

// abbrevCache keeps tables of abbreviations: after dwz, many units share one,
// and DIEs refer to those of other units.
type abbrevCache struct {
	mu     sync.Mutex
	tables map[abbrevKey]*abbrevs
	size   int // abbreviations in them
}

type abbrevKey struct {
	off uint64
	layout
}

// maxAbbrevs is how many are kept; a kernel has some 400,000 in 4,000 tables.
const maxAbbrevs = 1 << 16

// abbrevs returns the unit's table, empty if there is none.
func (u *unit) abbrevs() *abbrevs {
	key := abbrevKey{u.abbrevOff, u.layout}
	cache := &u.tables
	cache.mu.Lock()
	t := cache.tables[key]
	cache.mu.Unlock()
	if t != nil {
		return t
	}
	c := u.cursor(u.abbrev)
	c.Seek(u.abbrevOff)
	t = parseAbbrevs(&c, u.layout) // other units are not to wait for it
	n := len(t.list) + len(t.more)
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.tables == nil || cache.size+n > maxAbbrevs {
		cache.tables, cache.size = make(map[abbrevKey]*abbrevs), 0
	}
	cache.tables[key] = t
	cache.size += n
	return t
}

// rootAbbrev returns the abbreviation of the root DIE. Usually each unit has its
// own table, and listing units needs only this entry.
func (u *unit) rootAbbrev(code uint64) *abbrev {
	shared := len(u.units) > 0 && u.units[len(u.units)-1].abbrevOff == u.abbrevOff
	if shared {
		return u.abbrevs().get(code)
	}
	c := u.cursor(u.abbrev)
	c.Seek(u.abbrevOff)
	return findAbbrev(&c, u.layout, code)
}
