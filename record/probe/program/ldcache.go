package program

import (
	"bytes"
	"encoding/binary"
)

// library is a line of the dynamic linker's cache.
type library struct{ name, path string }

// ldCache reads the cache that ldconfig makes, /etc/ld.so.cache (struct cache_file_new in
// glibc's dl-cache.h), in its order. It ignores data after a damaged part.
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
			l = append(l, library{name, path})
		}
		e = e[entry:]
	}
	return l
}

// maxPath is the kernel's PATH_MAX.
const maxPath = 4096

// cString returns the string at off, up to its NUL.
func cString(b []byte, off uint32) (string, bool) {
	if uint64(off) >= uint64(len(b)) {
		return "", false
	}
	s, _, ok := bytes.Cut(b[off:min(uint64(off)+maxPath, uint64(len(b)))], []byte{0})
	return string(s), ok && len(s) > 0
}
