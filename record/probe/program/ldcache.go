package program

import (
	"bytes"
	"encoding/binary"
)

// library is a line of the dynamic linker's cache, or a file of one of the linker's directories.
type library struct {
	name, path string
	flags      uint32 // anyABI for files outside the cache
}

// anyABI are the flags of a library whose ABI is unknown.
const anyABI = ^uint32(0)

// fits reports whether the cache lists the library for this ABI, or does not say for which.
func (l *library) fits(a abi) bool {
	const required = 0xff00 // glibc's FLAG_REQUIRED_MASK
	flags, ok := ldFlags[a]
	return !ok || l.flags == anyABI || l.flags&required == flags
}

// ldCache reads the cache that ldconfig makes, /etc/ld.so.cache (struct cache_file_new in glibc's dl-cache.h), in
// the order of the cache. It ignores data after a damaged part.
func ldCache(b []byte) (l []library) {
	const (
		magic  = "glibc-ld.so.cache1.1"
		header = 48
		entry  = 24
	)
	// A cache in the old format may come first; string offsets count from the magic.
	i := bytes.Index(b, []byte(magic))
	if i < 0 || len(b)-i < header {
		return nil
	}
	b = b[i:]
	n := binary.NativeEndian.Uint32(b[len(magic):])
	for e := b[header:]; n > 0 && len(e) >= entry; n-- {
		name, ok1 := cString(b, binary.NativeEndian.Uint32(e[4:]))
		path, ok2 := cString(b, binary.NativeEndian.Uint32(e[8:]))
		if ok1 && ok2 {
			l = append(l, library{name, path, binary.NativeEndian.Uint32(e)})
		}
		e = e[entry:]
	}
	return l
}

// maxPath is the kernel's PATH_MAX.
const maxPath = 4096

// cString returns the string at off, up to the NUL.
func cString(b []byte, off uint32) (string, bool) {
	if uint64(off) >= uint64(len(b)) {
		return "", false
	}
	s, _, ok := bytes.Cut(b[off:min(uint64(off)+maxPath, uint64(len(b)))], []byte{0})
	return string(s), ok && len(s) > 0
}
