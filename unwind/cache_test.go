package unwind

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gperf/internal/dso"
	"gperf/internal/dso/cache"
)

// smallTable returns a table.
func smallTable() *Table {
	b := newTableBuilder(0)
	b.add(0x1000, 0x1010, b.rule(sp(8)))
	b.add(0x1010, 0x30000, b.rule(ruleFP))
	t := b.finish()
	t.Stats = Stats{1, 2, 3, 4}
	return t
}

// smallFile returns a file with a build ID and a log of reading it.
func smallFile(t *testing.T) (*dso.Image, *readLog) {
	t.Helper()
	im := image(t, libc(t))
	log := newReadLog(im)
	for _, off := range []int64{1000, 4000, 4100, 200} {
		if _, err := log.ReadAt(make([]byte, 100), off); err != nil {
			t.Fatal(err)
		}
	}
	log.closeRange()
	return im, log
}

func key(i byte) dso.BuildID { return dso.NewBuildID([]byte{i, 2, 3}) }

func sameTable(t *testing.T, got, want *Table) {
	t.Helper()
	if got.Base != want.Base || got.Stats != want.Stats ||
		fmt.Sprint(got.Pages, got.Rows, got.Rules) != fmt.Sprint(want.Pages, want.Rows, want.Rules) {
		t.Errorf("the table differs: got %+v, want %+v", got.Stats, want.Stats)
	}
}

func TestCache(t *testing.T) {
	c := &Cache{Dir: filepath.Join(t.TempDir(), "a", "b")}
	want := smallTable()
	im, log := smallFile(t)
	if _, err := c.load(key(1), im); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty cache: %v", err)
	}
	if err := c.store(key(1), want, log); err != nil {
		t.Fatal(err)
	}
	got, err := c.load(key(1), im)
	if err != nil {
		t.Fatal(err)
	}
	sameTable(t, got, want)
	if files, _ := os.ReadDir(c.Dir); len(files) != 1 {
		t.Errorf("%d files in the cache", len(files))
	}
}

// A table belongs to a file that has the same bytes in all the places that were read, and the same size.
func TestCacheOther(t *testing.T) {
	b := libc(t)
	c := &Cache{Dir: t.TempDir()}
	_, log := smallFile(t)
	if err := c.store(key(1), smallTable(), log); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		off  int
		want error
	}{
		{199, nil}, {200, errOther}, {299, errOther}, {300, nil}, {1000, errOther}, {1100, nil}, {3999, nil},
		{4000, errOther}, {4199, errOther}, {4200, nil},
	} {
		other := bytes.Clone(b)
		other[change.off]++
		if _, err := c.load(key(1), image(t, other)); !errors.Is(err, change.want) {
			t.Errorf("byte %d changed: %v, want %v", change.off, err, change.want)
		}
	}
	if _, err := c.load(key(1), image(t, append(b, 0))); !errors.Is(err, errOther) {
		t.Errorf("a longer file: %v", err)
	}
}

// A copy of a file with other CFI and the same build ID gets a table of its own, whichever was cached first.
func TestHostileCachePoisoned(t *testing.T) {
	honest := image(t, libc(t))
	b := libc(t)
	s := honest.Section(".eh_frame")
	clear(b[s.Offset+s.FileSize/2 : s.Offset+s.FileSize/2+64]) // an entry of length 0 ends the section
	for i := s.Offset; i+4 < s.Offset+s.FileSize/2; i++ {
		if bytes.Equal(b[i:i+3], []byte{0x0e, 0x10, 0x86}) { // DW_CFA_def_cfa_offset 16, DW_CFA_offset rbp
			b[i+1] = 0x20
		}
	}
	poisoned := image(t, b)
	if poisoned.BuildID() != honest.BuildID() {
		t.Fatal("another build ID")
	}
	var err error
	want := map[*dso.Image]*Table{}
	for _, im := range []*dso.Image{honest, poisoned} {
		if want[im], err = Build(im); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(want[honest].Rows) == fmt.Sprint(want[poisoned].Rows) {
		t.Fatal("the copy has the same table")
	}
	for _, order := range [][]*dso.Image{{honest, poisoned, honest, honest}, {poisoned, honest, poisoned, poisoned}} {
		c := &Cache{Dir: t.TempDir()}
		for i, im := range order {
			got, save, err := c.Get(im)
			if err != nil {
				t.Fatal(err)
			}
			sameTable(t, got, want[im])
			if cached := save == nil; cached != (i == 3) {
				t.Errorf("step %d: from the cache: %t", i, cached)
			} else if save != nil {
				save()
			}
		}
	}
}

// TestCacheDamage flips each byte of a file, and cuts it at each length: it is
// refused every time, and written again.
func TestCacheDamage(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	table := smallTable()
	im, log := smallFile(t)
	if err := c.store(key(1), table, log); err != nil {
		t.Fatal(err)
	}
	path := c.Files().File(key(1))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.load(key(1), im); !errors.Is(err, cache.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		try(fmt.Sprintf("byte %d", i), b)
		try(fmt.Sprintf("first %d bytes", i), good[:i])
	}
	try("too long", append(bytes.Clone(good), 0))
	if err := c.store(key(1), table, log); err != nil {
		t.Fatal(err)
	}
	if _, err := c.load(key(1), im); err != nil {
		t.Error(err)
	}
	os.Rename(path, c.Files().File(key(2)))
	if _, err := c.load(key(2), im); !errors.Is(err, cache.ErrDamaged) {
		t.Errorf("a file of another key: %v", err)
	}
}

func TestCacheBuild(t *testing.T) {
	im := image(t, libc(t))
	c := &Cache{Dir: t.TempDir()}
	first, err := c.Build(im)
	if err != nil || c.Err() != nil {
		t.Fatal(err, c.Err())
	}
	second, save, err := c.Get(im)
	if err != nil || save != nil {
		t.Fatal("not in the cache", err)
	}
	sameTable(t, second, first)

	// A cache that cannot be written is no error.
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o644)
	c = &Cache{Dir: file}
	if _, err := c.Build(im); err != nil || c.Err() == nil {
		t.Errorf("cache in a file: %v, %v", err, c.Err())
	}
	if _, err := (*Cache)(nil).Build(im); err != nil {
		t.Errorf("no cache: %v", err)
	}
}

// TestCacheEvict checks that the least recently used table is removed first.
func TestCacheEvict(t *testing.T) {
	im, log := smallFile(t)
	size := 40 + len(encodeTable(smallTable(), log.digest())) + len(log.ranges)
	c := &Cache{Dir: t.TempDir(), Limit: 4 * int64(size)}
	store := func(i int) {
		if err := c.store(key(byte(i)), smallTable(), log); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * 24 * time.Hour)
		os.Chtimes(c.Files().File(key(byte(i))), old, old)
	}
	for i := range 4 {
		store(i)
	}
	if _, err := c.load(key(0), im); err != nil {
		t.Fatal(err)
	}
	store(4)
	for i, want := range []bool{true, false, false, true, true} {
		if _, err := c.load(key(byte(i)), im); (err == nil) != want {
			t.Errorf("table %d: %v", i, err)
		}
	}
}
