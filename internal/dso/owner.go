package dso

import (
	"strings"

	"gperf/internal/untrusted"
)

// Owner returns the owner of the file recorded at path if the open image is this file, at this path of this machine. ok
// is false for copies in archives, in other trees and in caches: in directories with a name that begins with a dot and
// in perf's build-ID cache.
func (l *Locator) Owner(im *Image, path string) (uid uint32, ok bool) {
	if im.file == nil || l.Packed() || l.Root != "" || im.Path != path || strings.Contains(path, "/.") {
		return 0, false
	}
	if dir := l.Cache().Dir; dir != "" && strings.HasPrefix(path, dir+"/") {
		return 0, false
	}
	return untrusted.Owner(im.file, path)
}
