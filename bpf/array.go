package bpf

import (
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// grace is the time during which a removed element may still be read: far longer than a
// program runs.
const grace = 100 * time.Millisecond

// array is a BPF array of T. Go code writes it in place, through temporary mappings: a
// permanent mapping would count the whole array as memory of this process.
type array[T any] struct {
	m    *ebpf.Map
	name string
	n    uint32
	used *extents
	kept []T    // all elements, if they are mapped permanently
	mem  []byte // the memory of kept
}

// newArray returns the array of a map whose elements are one T or several.
func newArray[T any](m *ebpf.Map, name string) *array[T] {
	var t T
	n := m.MaxEntries() * m.ValueSize() / uint32(unsafe.Sizeof(t))
	return &array[T]{m: m, name: name, n: n, used: newExtents(n, grace)}
}

// FullError means that an array of the programs is full: Options can make it larger.
type FullError struct{ Array string }

func (e *FullError) Error() string { return "no space left for " + e.Array }

// add writes elements next to each other, and returns the index of the first.
func (a *array[T]) add(elems []T) (first uint32, err error) {
	if int64(len(elems)) > int64(a.n) {
		return 0, fmt.Errorf("%d %s: there is space for %d", len(elems), a.name, a.n)
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

// window calls use with n elements from index first on. They are valid until use returns.
func (a *array[T]) window(first uint32, n int, use func([]T)) error {
	if n == 0 {
		return nil
	}
	if a.kept != nil && uint64(first)+uint64(n) <= uint64(a.n) {
		use(a.kept[first:][:n])
		return nil
	}
	mem, elems, err := a.mmap(first, n)
	if err != nil {
		return err
	}
	use(elems)
	return unix.Munmap(mem)
}

// keep maps all elements until drop, for an array that is small or changes often: a temporary
// mapping takes two system calls, and some page faults.
func (a *array[T]) keep() (err error) {
	a.mem, a.kept, err = a.mmap(0, int(a.n))
	return err
}

func (a *array[T]) drop() {
	if a.mem != nil {
		unix.Munmap(a.mem)
	}
	a.mem, a.kept = nil, nil
}

// mmap maps the pages of n elements from index first on.
func (a *array[T]) mmap(first uint32, n int) (mem []byte, elems []T, err error) {
	var t T
	size := int64(unsafe.Sizeof(t))
	if int64(first)+int64(n) > int64(a.n) {
		return nil, nil, fmt.Errorf("%d %s at %d: past the end of the array", n, a.name, first)
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
