package srcline

import "sync"

// abbrevCache caches tables of abbreviations: after dwz, many units share one, and DIEs refer to other units.
type abbrevCache struct {
	mu     sync.Mutex
	tables map[abbrevKey]*abbrevs
	size   int // number of abbreviations in them
}

type abbrevKey struct {
	off uint64
	layout
}

// maxAbbrevs limits the abbreviations in the cache; a kernel has some 400,000 in 4,000 tables.
const maxAbbrevs = 1 << 16

// abbrevs returns the unit's table. The table is empty if there is none.
func (u *unit) abbrevs() *abbrevs {
	key := abbrevKey{u.abbrevOff, u.layout}
	cache := &u.sections.tables
	cache.mu.Lock()
	t := cache.tables[key]
	cache.mu.Unlock()
	if t != nil {
		return t
	}
	c := u.sections.cursor(u.sections.abbrev)
	c.Seek(u.abbrevOff)
	t = parseAbbrevs(&c, u.layout) // without the lock, so that other units do not wait
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

// rootAbbrev returns the abbreviation of the root DIE. Listing units needs only this entry of the unit's table.
func (u *unit) rootAbbrev(code uint64) *abbrev {
	shared := len(u.sections.units) > 0 && u.sections.units[len(u.sections.units)-1].abbrevOff == u.abbrevOff
	if shared {
		return u.abbrevs().get(code)
	}
	c := u.sections.cursor(u.sections.abbrev)
	c.Seek(u.abbrevOff)
	return findAbbrev(&c, u.layout, code)
}
