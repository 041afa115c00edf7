package untrusted

import "os"

// Owner returns the owner of an open file whose only path is this one: no link leads to it. ok is false for other
// files, and on systems other than Linux.
func Owner(file *os.File, path string) (uid uint32, ok bool) {
	if realPath(file) != path {
		return 0, false
	}
	return ownerOf(file)
}

func ownerOf(file *os.File) (uid uint32, ok bool) {
	st, err := file.Stat()
	if err != nil {
		return 0, false
	}
	return OwnerOf(st)
}

// MayShow reports whether a file that this process can read may be shown where another file, of the owner who (nil if
// unknown), names it: only root can read more than others may, so a file that root reads must belong to the same owner,
// or be readable by all.
func MayShow(file *os.File, who *uint32) bool {
	if os.Geteuid() != 0 {
		return true
	}
	uid, ok := ownerOf(file)
	return ok && who != nil && uid == *who || readableByAll(file)
}
