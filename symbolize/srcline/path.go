package srcline

import (
	"bytes"
	"path"
)

// Path returns the call's file as perf shows it: its base name, or the whole path;
// "??" where it is not known.
func (c *Call) Path(whole bool) string {
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
func (c *Call) TreePath(whole bool) string {
	if whole || c.Top == 0 {
		return c.Path(true)
	}
	return c.File[c.Top:]
}

// topOf returns where in a path what lies below the top of its tree begins: behind
// the longest directory that it shares with the one that it was compiled in. That
// is the top itself, or a directory for what is made of the tree, somewhere
// below it. What shares the root alone is of another tree: 0.
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
