package archive

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type entry struct {
	name, text string
	link       string // where it leads
}

func tarOf(t *testing.T, members ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: int64(len(m.text)), Mode: 0o644}
		if m.link != "" {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: m.name, Linkname: m.link}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnpack: perf's cache comes to one directory, the recording to the other, and
// nothing outside of them.
func TestUnpack(t *testing.T) {
	cache := tarOf(t, entry{name: ".build-id/ab/cd", link: "../../usr/bin/x/abcd"},
		entry{name: "usr/bin/x/abcd/elf", text: "E"})
	for _, c := range []struct {
		name    string
		members []entry
		files   []string // with text
		err     string
	}{
		{"cache", []entry{{name: ".build-id/ab/cd", link: "../../usr/bin/x/abcd"},
			{name: "usr/bin/x/abcd/elf", text: "E"}},
			[]string{"cache/.build-id/ab/cd/elf=E", "cache/usr/bin/x/abcd/elf=E"}, ""},
		{"replaced", []entry{{name: "old", text: "new"}}, []string{"cache/old=new"}, ""},
		{"all", []entry{{name: "perf.data", text: "R"}, {name: perfSymbols, text: string(cache)}},
			[]string{"here/perf.data=R", "cache/.build-id/ab/cd/elf=E"}, ""},
		{"above", []entry{{name: "../x", text: "E"}}, nil, "escapes"},
		{"link above", []entry{{name: "a/l", link: "../../x"}}, nil, "leads out of the archive"},
		{"absolute link", []entry{{name: "l", link: "/etc"}}, nil, "leads out of the archive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"here/x": "", "cache/old": "old"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			a, err := OpenPerf(bytes.NewReader(tarOf(t, c.members...)))
			if err != nil {
				t.Fatal(err)
			}
			err = a.Unpack(filepath.Join(dir, "here"), filepath.Join(dir, "cache"), func(string) {})
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			for _, f := range c.files {
				name, want, _ := strings.Cut(f, "=")
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s has %q (%v), want %q", name, got, err, want)
				}
			}
			if l, err := os.ReadDir(dir); err != nil || len(l) != 2 {
				t.Errorf("besides the two directories there is %v (%v)", l, err)
			}
		})
	}
}
