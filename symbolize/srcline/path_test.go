package srcline

import "testing"

func TestPath(t *testing.T) {
	for _, c := range []struct{ file, compDir, base, tree string }{
		{"", "", "??", "??"},
		{"/build/linux-6.1/net/ipv4/udp.c", "/build/linux-6.1/debian/build/amd64", "udp.c", "net/ipv4/udp.c"},
		{"debian/build/amd64/net/ipv4/udp.c", "debian/build/amd64", "udp.c", "net/ipv4/udp.c"},
		{"/src/linux/net/ipv4/udp.c", "/src/linux", "udp.c", "net/ipv4/udp.c"},
		{"/src/linux/./include/net/sock.h", "/src/linux/", "sock.h", "include/net/sock.h"},
		{"/src/linux/out/../net/ipv4/udp.c", "/src/linux/out", "udp.c", "net/ipv4/udp.c"},
		{"/src/linux-6.1/a.c", "/src/linux", "a.c", "linux-6.1/a.c"},
		{"/usr/include/stdio.h", "/home/user/prog", "stdio.h", "/usr/include/stdio.h"},
		{"/usr/include/stdio.h", "/", "stdio.h", "/usr/include/stdio.h"},
		{"net/ipv4/udp.c", "/src/linux", "udp.c", "net/ipv4/udp.c"},
		{"a.c", "", "a.c", "a.c"},
		{"dir/../", "dir", "..", "dir/../"},
	} {
		call := InlineFrame{File: c.file, Top: topOf([]byte(c.file), []byte(c.compDir))}
		if base, tree := call.Path(false), call.TreePath(false); base != c.base || tree != c.tree {
			t.Errorf("%s of %s: %s and %s, want %s and %s", c.file, c.compDir, base, tree, c.base, c.tree)
		}
		if full := call.Path(true); c.file != "" && (full != c.file || call.TreePath(true) != full) {
			t.Errorf("full path of %s: %s", c.file, full)
		}
	}
}
