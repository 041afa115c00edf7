package srcline

import (
	"bytes"
	"path"
)

// Path returns the frame's file as perf prints it: its base name, or with full the complete path. It returns "??" for
// an unknown file.
func (c *InlineFrame) Path(full bool) string {
	switch {
	case c.File == "":
		return "??"
	case full:
		return c.File
	}
	return path.Base(c.File)
}

// TreePath is Path, but instead of the base name it returns the path from the top of the source tree, if known.
func (c *InlineFrame) TreePath(full bool) string {
	if full || c.Top == 0 {
		return c.Path(true)
	}
	return c.File[c.Top:]
}

// topOf returns the length in bytes of a path's prefix up to the top of its source tree: the longest directory that it
// shares with the compilation directory, which is the top itself or a build directory in it. A path that shares only
// the root belongs to another tree: topOf returns 0.
func topOf(file, compDir []byte) int {
	top := 0
	for i := 1; i <= len(compDir) && i < len(file) && file[i-1] == compDir[i-1]; i++ {
		if file[i] == '/' && (i == len(compDir) || compDir[i] == '/') {
			top = i + 1
		}
	}
	if top == 0 {
		return 0
	}
	rest := file[top:]
	for _, dots := range [...]string{"../", "./", "/"} { // "../../../net/ipv4/udp.c"
		for bytes.HasPrefix(rest, []byte(dots)) {
			rest = rest[len(dots):]
		}
	}
	return (len(file) - len(rest)) % len(file)
}
