package cache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gperf/internal/dso"
)

func newDir(t *testing.T, limit int64) *Dir {
	return &Dir{Path: filepath.Join(t.TempDir(), "a", "b"), Suffix: ".x", Magic: "gperf--\x01", Limit: limit}
}

func id(i int) dso.BuildID { return dso.NewBuildID([]byte{byte(i), 2, 3, 4}) }

func TestDir(t *testing.T) {
	d := newDir(t, 1<<20)
	if _, err := d.Load(id(1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty: %v", err)
	}
	if err := d.Store(id(1), []byte("some"), nil, []byte("thing")); err != nil {
		t.Fatal(err)
	}
	if b, err := d.Load(id(1)); string(b) != "something" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if n, size, err := d.Size(); n != 1 || size != header+9 || err != nil {
		t.Errorf("%d files of %d bytes, %v", n, size, err)
	}
	if err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	if n, size, err := d.Size(); n != 0 || size != 0 || err != nil {
		t.Errorf("cleared: %d files of %d bytes, %v", n, size, err)
	}
	var none *Dir
	if _, err := none.Load(id(1)); !errors.Is(err, fs.ErrNotExist) || none.Store(id(1), nil) != nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestDamage flips each byte of a file and truncates it at each length. Load must reject
// it every time.
func TestDamage(t *testing.T) {
	d := newDir(t, 1<<20)
	if err := d.Store(id(1), []byte("something")); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(d.File(id(1)))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) {
		if err := os.WriteFile(d.File(id(1)), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Load(id(1)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		try(fmt.Sprintf("byte %d", i), b)
		try(fmt.Sprintf("first %d bytes", i), good[:i])
	}
	os.WriteFile(d.File(id(2)), good, 0o644)
	if _, err := d.Load(id(2)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file of another build ID: %v", err)
	}
}

// TestEvict checks that eviction removes the least recently used files.
func TestEvict(t *testing.T) {
	d := newDir(t, 4*(header+100))
	store := func(i int) {
		if err := d.Store(id(i), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-100) * 24 * time.Hour)
		os.Chtimes(d.File(id(i)), old, old)
	}
	for i := range 4 {
		store(i)
	}
	if _, err := d.Load(id(0)); err != nil { // marks the file as used
		t.Fatal(err)
	}
	store(4)
	for i, want := range []bool{true, false, false, true, true} {
		if _, err := d.Load(id(i)); (err == nil) != want {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

// However many files Store writes, the total size stays close to the limit, and counting them does not dominate the
// time.
func TestEvictSometimes(t *testing.T) {
	const size = 1000
	const limit = 200 * (header + size)
	d := newDir(t, limit)
	counted := 0
	for i := range 2000 {
		if d.dueToEvict([][]byte{make([]byte, size)}) {
			counted++
		}
		if err := d.Store(dso.NewBuildID([]byte{byte(i), byte(i >> 8), 3, 4}), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if counted == 0 || counted > 1000 {
		t.Errorf("the files are counted %d times in 2000", counted)
	}
	if _, bytes, err := d.Size(); err != nil || bytes > limit+limit/2 {
		t.Errorf("%d bytes are kept of at most %d, %v", bytes, limit, err)
	}
}

// TestConcurrent stores, loads and evicts as several recorders with the same directory do: each file that Load
// returns is complete, and none of them fails.
func TestConcurrent(t *testing.T) {
	const size, ids, users = 1000, 50, 4
	path := t.TempDir()
	var running sync.WaitGroup
	for user := range users {
		running.Go(func() {
			d := &Dir{Path: path, Suffix: ".x", Magic: "gperf--\x01", Limit: ids / 2 * (header + size)}
			for i := range 4 * ids {
				n := (i*7 + user) % ids
				b, err := d.Load(id(n))
				switch {
				case errors.Is(err, fs.ErrNotExist):
					err = d.Store(id(n), bytes.Repeat([]byte{byte(n)}, size))
				case err == nil && !bytes.Equal(b, bytes.Repeat([]byte{byte(n)}, size)):
					err = errors.New("other contents")
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if err := newDir(t, 1).evict(); err != nil {
		t.Errorf("without a directory: %v", err)
	}
}

// BenchmarkStore stores files of 64 KiB into a directory of 20,000 files.
func BenchmarkStore(b *testing.B) {
	d := &Dir{Path: b.TempDir(), Suffix: ".x", Magic: "gperf--\x01", Limit: 1 << 30}
	for i := range 20000 {
		name := dso.NewBuildID(binary.LittleEndian.AppendUint64(nil, uint64(i)))
		if err := os.WriteFile(d.File(name), make([]byte, 100), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	data := make([]byte, 64<<10)
	for i := 0; b.Loop(); i++ {
		name := dso.NewBuildID(binary.LittleEndian.AppendUint64(nil, uint64(1<<32+i%5000)))
		if err := d.Store(name, data); err != nil {
			b.Fatal(err)
		}
	}
}
