package program

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func hexed(n uint64) string { return strconv.FormatUint(n, 16) }

// TestRootLinks checks that symbolic links of another root lead to files of that root.
func TestRootLinks(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"usr/lib", "etc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"lib": "usr/lib", "abs": "/usr/lib", "out": "../../../../etc", "usr/lib/a.so": "b.so", "usr/lib/c.so": "/lib/b.so", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr/lib/b.so", "etc/passwd"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"/usr/lib/b.so":            "/usr/lib/b.so",
		"/lib/b.so":                "/usr/lib/b.so",
		"/abs/a.so":                "/usr/lib/b.so",
		"/lib/c.so":                "/usr/lib/b.so",
		"/out/passwd":              "/etc/passwd",
		"/../../etc/passwd":        "/etc/passwd",
		"/abs/../../../etc/passwd": "/etc/passwd",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := root(dir).path(name); err != nil || got != dir+want {
				t.Errorf("%s, %v; want %s", got, err, dir+want)
			}
		})
	}
	if _, err := root(dir).path("/loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
	if _, err := root(dir).path("/nothing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		file, name string
		want       bool
	}{
		{"libssl.so.3", "ssl", true}, {"libssl.so.3", "libssl", true}, {"libssl.so.3", "libssl.so", true}, {"libssl.so", "ssl", true},
		{"libssl3.so", "ssl", false}, {"libssl.so.3", "libs", false}, {"libssl.a", "ssl", false}, {"libc.so.6", "c", true},
	} {
		t.Run(c.file+" "+c.name, func(t *testing.T) {
			if isLibrary(c.file, c.name) != c.want {
				t.Errorf("%s for %s: %v", c.file, c.name, !c.want)
			}
		})
	}
	if compareVersions("libx.so.10", "libx.so.9") <= 0 || compareVersions("libx.so", "libx.so.1") >= 0 {
		t.Error("libx.so.10 is not after libx.so.9, or libx.so is not before them")
	}
	self, err := root("").lookUp("sh", native())
	if want, e := exec.LookPath("sh"); e == nil && (err != nil || !same(self, want)) {
		t.Errorf("sh is %s, %v; want %s", self, err, want)
	}
	if path, err := root("").lookUp("no-such-program", native()); err == nil {
		t.Errorf("no-such-program is %s", path)
	}
}

// TestLDCacheAgainstLdconfig compares with ldconfig, which prints the same cache.
func TestLDCacheAgainstLdconfig(t *testing.T) {
	ldconfig := "/sbin/ldconfig"
	b, err := os.ReadFile("/etc/ld.so.cache")
	if _, e := os.Stat(ldconfig); e != nil || err != nil {
		t.Skip("there is no /sbin/ldconfig, or no /etc/ld.so.cache")
	}
	out, err := exec.Command(ldconfig, "-p").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"amd64": "x86-64", "arm64": "AArch64"} // ldconfig's
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) \((.*)\) => (\S+)$`).FindAllStringSubmatch(string(out), -1) {
		want = append(want, m[1]+" "+m[3]+" "+strconv.FormatBool(strings.Contains(m[2], names[runtime.GOARCH])))
	}
	for _, l := range ldCache(b) {
		got = append(got, l.name+" "+l.path+" "+strconv.FormatBool(l.fits(native())))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d libraries, ldconfig has %d", len(got), len(want))
	}
}

func FuzzLDCache(f *testing.F) {
	b := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28+24)...)
	b[20] = 1
	binary.NativeEndian.PutUint32(b[48+4:], 72)
	binary.NativeEndian.PutUint32(b[48+8:], 77)
	f.Add(append(b, "libx\x00/lib/libx\x00"...))
	f.Add(b[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range ldCache(b) {
			if l.name == "" || l.path == "" {
				t.Errorf("a library without a name: %+v", l)
			}
		}
	})
}
