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

// smallTable returns a table with the given build ID.
func smallTable(id string) *Table {
	b := newTableBuilder(0)
	b.add(0x1000, 0x1010, b.rule(sp(8)))
	b.add(0x1010, 0x30000, b.rule(ruleFP))
	t := b.finish()
	t.BuildID, _ = dso.ParseBuildID(id)
	t.Stats = Stats{1, 2, 3, 4}
	return t
}

func sameTable(t *testing.T, got, want *Table) {
	t.Helper()
	if got.BuildID != want.BuildID || got.Base != want.Base || got.Stats != want.Stats ||
		fmt.Sprint(got.Pages, got.Rows, got.Rules) != fmt.Sprint(want.Pages, want.Rows, want.Rules) {
		t.Errorf("the table differs: got %+v, want %+v", got.Stats, want.Stats)
	}
}

func TestCache(t *testing.T) {
	c := &Cache{Dir: filepath.Join(t.TempDir(), "a", "b")}
	want := smallTable("0123456789")
	if _, err := c.Load(want.BuildID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty cache: %v", err)
	}
	if err := c.Store(want); err != nil {
		t.Fatal(err)
	}
	got, err := c.Load(want.BuildID)
	if err != nil {
		t.Fatal(err)
	}
	sameTable(t, got, want)
	if files, _ := os.ReadDir(c.Dir); len(files) != 1 {
		t.Errorf("%d files in the cache", len(files))
	}
}

// TestCacheDamage flips each byte of a file, and cuts it at each length: it is
// refused every time, and written again.
func TestCacheDamage(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	table := smallTable("0123456789")
	if err := c.Store(table); err != nil {
		t.Fatal(err)
	}
	path := c.Files().File(table.BuildID)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Load(table.BuildID); !errors.Is(err, cache.ErrDamaged) {
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
	if err := c.Store(table); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load(table.BuildID); err != nil {
		t.Error(err)
	}
	other, _ := dso.ParseBuildID("aa")
	os.Rename(path, c.Files().File(other))
	if _, err := c.Load(other); !errors.Is(err, cache.ErrDamaged) {
		t.Errorf("a file of another build ID: %v", err)
	}
}

func TestCacheBuild(t *testing.T) {
	im := image(t, libc(t))
	c := &Cache{Dir: t.TempDir()}
	first, err := c.Build(im)
	if err != nil || c.Err() != nil {
		t.Fatal(err, c.Err())
	}
	if _, err := c.Load(im.BuildID()); err != nil {
		t.Fatal(err)
	}
	second, err := c.Build(im)
	if err != nil {
		t.Fatal(err)
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
	c := &Cache{Dir: t.TempDir(), Limit: 4 * int64(40+len(encodeTable(smallTable("00"))))}
	store := func(i int) *Table {
		table := smallTable(fmt.Sprintf("%02x", i))
		if err := c.Store(table); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * 24 * time.Hour)
		os.Chtimes(c.Files().File(table.BuildID), old, old)
		return table
	}
	used := store(0)
	for i := 1; i <= 3; i++ {
		store(i)
	}
	if _, err := c.Load(used.BuildID); err != nil {
		t.Fatal(err)
	}
	store(4)
	for i, want := range []bool{true, false, false, true, true} {
		id, _ := dso.ParseBuildID(fmt.Sprintf("%02x", i))
		if _, err := c.Load(id); (err == nil) != want {
			t.Errorf("table %d: %v", i, err)
		}
	}
}
