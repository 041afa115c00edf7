package srcline

import (
	"bytes"
	"path"
)

// Path returns the call's file as perf shows it: its base name, or the whole path;
// "??" where it is not known.
func (c *InlineFrame) Path(whole bool) string {
	switch {
	case c.File == "":
		return "??"
	case whole:
		return c.File
	}
	return path.Base(c.File)
}

// TreePath is Path with the path from the top of the file's tree, as far as that
// is known, instead of the base name.
func (c *InlineFrame) TreePath(whole bool) string {
	if whole || c.Top == 0 {
		return c.Path(true)
	}
	return c.File[c.Top:]
}

// topOf returns the offset in a path of the part below the top of its source tree:
// after the longest directory that it shares with the compilation directory, which
// is the top itself or a build directory below it. A path that shares only the
// root belongs to another tree: 0.
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
