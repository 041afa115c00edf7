package bpf

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// grace is how long after it was taken out of use an element may still be
// read: far longer than a program runs.
const grace = 100 * time.Millisecond

// array is a BPF array of T that is written in place, through windows of
// memory that it shares with the kernel: mapped for good, all of it would count
// as memory of this process.
type array[T any] struct {
	m    *ebpf.Map
	name string
	n    uint32
	used *extents
}

// newArray returns the array of a map, each of whose elements is one T or several.
func newArray[T any](m *ebpf.Map, name string) *array[T] {
	var t T
	n := m.MaxEntries() * m.ValueSize() / uint32(unsafe.Sizeof(t))
	return &array[T]{m: m, name: name, n: n, used: newExtents(n, grace)}
}

// FullError says that an array of the programs has no place left: Options make it larger.
type FullError struct{ Array string }

func (e *FullError) Error() string { return "no place left among the " + e.Array }

// add writes elements side by side, and returns the index of the first.
func (a *array[T]) add(elems []T) (first uint32, err error) {
	if int64(len(elems)) > int64(a.n) {
		return 0, fmt.Errorf("%d %s: there is room for %d", len(elems), a.name, a.n)
	}
	first, ok := a.used.take(uint32(len(elems)), time.Now())
	if !ok {
		return 0, &FullError{a.name}
	}
	if err := a.write(first, elems); err != nil {
		a.remove(first, len(elems))
		return 0, err
	}
	return first, nil
}

func (a *array[T]) remove(first uint32, n int) { a.used.give(first, uint32(n), time.Now()) }

// write writes elements from index first on.
func (a *array[T]) write(first uint32, elems []T) error {
	return a.window(first, len(elems), func(mem []T) { copy(mem, elems) })
}

// window hands n elements from index first on to use, for as long as that runs.
func (a *array[T]) window(first uint32, n int, use func([]T)) error {
	if n == 0 {
		return nil
	}
	mem, elems, err := a.mmap(first, n)
	if err != nil {
		return err
	}
	use(elems)
	return unix.Munmap(mem)
}

// mmap maps the pages that hold n elements from index first on.
func (a *array[T]) mmap(first uint32, n int) (mem []byte, elems []T, err error) {
	var t T
	size := int64(unsafe.Sizeof(t))
	if int64(first)+int64(n) > int64(a.n) {
		return nil, nil, fmt.Errorf("%d %s at %d: beyond their end", n, a.name, first)
	}
	page := int64(os.Getpagesize())
	from := int64(first) * size
	to := from + int64(n)*size
	start := from &^ (page - 1)
	mem, err = unix.Mmap(a.m.FD(), start, int(to-start), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("mapping the %s: %w", a.name, err)
	}
	return mem, unsafe.Slice((*T)(unsafe.Pointer(&mem[from-start])), n), nil
}
