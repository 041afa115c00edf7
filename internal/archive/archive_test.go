package archive

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gperf/internal/dso"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// noise returns n bytes that deflate partly.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(8))
	}
	return b
}

// packed is an archive of files in the order of names.
func packed(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		if err := w.Add(name, noon, bytes.NewReader(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(b []byte) (*Archive, error) { return Open(bytes.NewReader(b), int64(len(b))) }

func mustOpen(t testing.TB, b []byte) *Archive {
	t.Helper()
	a, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sizes returns files with sizes around a piece's, and around the size of a batch to deflate.
func sizes() map[string][]byte {
	files := map[string][]byte{recording: noise(1000)}
	batch := runtime.GOMAXPROCS(0) * pieceSize
	for i, n := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, batch, batch + 1, 3*batch + 77} {
		files[fmt.Sprintf("dir/%d", i)] = noise(n)
	}
	files["zeros"] = make([]byte, 5*pieceSize)
	return files
}

// TestReadAt: packed files can be read from any offset.
func TestReadAt(t *testing.T) {
	files := sizes()
	a := mustOpen(t, packed(t, files))
	r := rand.New(rand.NewPCG(1, 2))
	for name, want := range files {
		f, err := a.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: read %d bytes and error %v, want the %d packed", name, len(got), err, len(want))
		}
		for range 50 {
			off := r.IntN(len(want) + 1)
			p := make([]byte, r.IntN(2*pieceSize))
			n, err := f.(io.ReaderAt).ReadAt(p, int64(off))
			rest := want[off:]
			if !bytes.Equal(p[:n], rest[:min(len(p), len(rest))]) || (err == io.EOF) != (n < len(p)) {
				t.Errorf("%s: ReadAt %d bytes at %d gives %d and error %v; %d are left", name, len(p), off, n, err,
					len(rest))
			}
		}
	}
}

// TestZip: it is a zip file like any other.
func TestZip(t *testing.T) {
	files := sizes()
	b := packed(t, files)
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if f.Name == index {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, files[f.Name]) || !f.Modified.Equal(noon) {
			t.Errorf("%s: %d bytes of %v, error %v; want %d of %v", f.Name, len(got), f.Modified, err,
				len(files[f.Name]), noon)
		}
	}
	if _, err := exec.LookPath("unzip"); err != nil {
		t.Skip("unzip is not installed: that it, too, can read archives is not tested")
	}
	name := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("unzip", "-t", name).CombinedOutput(); err != nil {
		t.Errorf("unzip -t: %v\n%s", err, out)
	}
}

// TestRecording: a recording is one file, or a directory's files, data first.
func TestRecording(t *testing.T) {
	for _, c := range []struct {
		files map[string][]byte
		want  string
	}{
		{map[string][]byte{"perf.data": []byte("one")}, "one"},
		{map[string][]byte{"perf.data/data": []byte("head "), "perf.data/data.1": []byte("b"),
			"perf.data/data.0": []byte("a "), "perf.data/data.3": []byte("not in the row")}, "head a b"},
	} {
		var got []byte
		for _, p := range mustOpen(t, packed(t, c.files)).Recording() {
			b := make([]byte, p.Size)
			if _, err := p.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if got = append(got, b...); !p.Changed.Equal(noon) {
				t.Errorf("changed %v, want %v", p.Changed, noon)
			}
		}
		if string(got) != c.want {
			t.Errorf("recording %q, want %q", got, c.want)
		}
	}
}

// foreign is an archive as other tools make it of the files, in turn name and contents.
func foreign(t testing.TB, method uint16, list ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(list); i += 2 {
		h := &zip.FileHeader{Name: list[i], Method: method}
		if strings.HasPrefix(list[i+1], "->") {
			h.SetMode(fs.ModeSymlink | 0o777)
		}
		f, err := z.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(list[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestForeign: archives repacked by other tools can be read.
func TestForeign(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		a := mustOpen(t, foreign(t, method, "usr/", "", "usr/x", "some text", "perf.data", "p"))
		b, err := fs.ReadFile(a, "usr/x")
		if err != nil || string(b) != "some text" {
			t.Errorf("method %d: read %q, error %v", method, b, err)
		}
	}
	a := mustOpen(t, foreign(t, zip.Deflate, "perf.data", string(make([]byte, maxMemory+1))))
	if _, err := fs.ReadFile(a, recording); !errors.Is(err, ErrRepacked) {
		t.Errorf("more than may be unpacked: error %v, want ErrRepacked", err)
	}
}

// TestBad: opening an incomplete archive, or reading a damaged part, returns an error that says so.
func TestBad(t *testing.T) {
	good := packed(t, map[string][]byte{recording: noise(2 * pieceSize), "x": noise(100)})
	with := func(ix []byte) []byte {
		return foreign(t, zip.Deflate, recording, "some contents", index, string(ix))
	}
	changed := bytes.Clone(good)
	changed[len(changed)/4] ^= 1
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"cut", good[:len(good)-1], ErrDamaged},
		{"half", good[:len(good)/2], ErrDamaged},
		{"empty", foreign(t, zip.Store), ErrNoRecording},
		{"no recording", foreign(t, zip.Store, "readme", "hello"), ErrNoRecording},
		{"twice", foreign(t, zip.Store, recording, "a", recording, "b"), ErrDamaged},
		{"climbs", foreign(t, zip.Store, recording, "a", "../x", "b"), ErrDamaged},
		{"absolute", foreign(t, zip.Store, recording, "a", "/etc/passwd", "b"), ErrDamaged},
		{"link", foreign(t, zip.Store, recording, "a", "x", "->/etc/passwd"), ErrDamaged},
		{"index cut", with([]byte{1, 2}), ErrDamaged},
		{"index longer than the member", with([]byte{0xff, 0xff, 3, 1, 2, 3, 4}), ErrDamaged},
		{"index of more", with([]byte{4, 1, 2, 3, 4, 5, 6, 7, 8, 9}), ErrDamaged},
		{"index of others", with([]byte{4, 1, 2, 3, 4}), ErrDamaged},
		{"a bit", changed, ErrDamaged},
	} {
		a, err := open(c.b)
		if err == nil {
			_, err = fs.ReadFile(a, recording)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

// TestGlob: patterns follow path.Match.
func TestGlob(t *testing.T) {
	a := mustOpen(t, packed(t, map[string][]byte{recording: nil, "lib/modules/6.1/modules.dep": nil,
		"lib/modules/6.1/x/y": nil}))
	if got, err := fs.Glob(a, "lib/modules/*/modules.dep"); err != nil ||
		!slices.Equal(got, []string{"lib/modules/6.1/modules.dep"}) {
		t.Errorf("glob gives %q, error %v", got, err)
	}
}

// FuzzOpen: any bytes give an error or an archive, whose members give errors or
// bytes: no panic, and no more memory than there are bytes.
func FuzzOpen(f *testing.F) {
	f.Add(packed(f, map[string][]byte{recording: noise(300), "usr/bin/x": []byte("\x7fELF")}))
	f.Add(packed(f, map[string][]byte{"perf.data/data": make([]byte, pieceSize+1), "perf.data/data.0": {}}))
	f.Add(foreign(f, zip.Deflate, recording, "some contents", index, "\x04\x01\x02\x03\x04"))
	f.Add(foreign(f, zip.Store, recording, "some contents", "a/b", "c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := open(b)
		if err != nil {
			return
		}
		p := make([]byte, pieceSize+100)
		for _, name := range a.Names() {
			file, err := a.Open(name)
			if err != nil {
				t.Fatalf("%s is listed: %v", name, err)
			}
			st, _ := file.Stat()
			for _, off := range []int64{0, 5, st.Size() / 2, st.Size() - 1, st.Size()} {
				if n, err := file.(io.ReaderAt).ReadAt(p, off); n < len(p) && err == nil {
					t.Fatalf("%s: %d bytes at %d and no error", name, n, off)
				}
			}
		}
	})
}

// TestKernelText: code of a kernel is found in an archive by address, with the kernel's build ID and without.
func TestKernelText(t *testing.T) {
	for _, id := range []dso.BuildID{{}, dso.NewBuildID([]byte("of that kernel......"))} {
		var out bytes.Buffer
		p := &Packer{Writer: NewWriter(&out)}
		if err := p.Writer.Add(recording, noon, bytes.NewReader(noise(100))); err != nil {
			t.Fatal(err)
		}
		text := []Text{{0xffffffff81000010, noise(1000)}, {0xffffffffc0000000, noise(7)}}
		if err := p.AddKernelText(id, elf.EM_AARCH64, text); err != nil {
			t.Fatal(err)
		}
		if err := p.Writer.Close(); err != nil {
			t.Fatal(err)
		}
		im, err := mustOpen(t, out.Bytes()).Locator().Kcore(id)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		loads := im.Loads
		if im.Machine != elf.EM_AARCH64 || len(loads) != len(text) {
			t.Fatalf("%v, %d segments", im.Machine, len(loads))
		}
		for i, l := range loads {
			b, err := im.Bytes(l.Off, l.Filesz)
			if err != nil || l.Vaddr != text[i].Addr || !bytes.Equal(b, text[i].Bytes) {
				t.Errorf("%d bytes at %#x, %v; want %d at %#x", len(b), l.Vaddr, err, len(text[i].Bytes), text[i].Addr)
			}
		}
	}
	if err := (&Packer{}).AddKernelText(dso.BuildID{}, elf.EM_X86_64, make([]Text, 0xffff)); err == nil {
		t.Error("more functions than a core file can have are packed")
	}
}

// TestVDSO: the vdso's debug information is packed under the build ID in the vdso itself, and is found if no build
// ID was recorded.
func TestVDSO(t *testing.T) {
	locator := &dso.Locator{Tree: dso.Tree{DebugDir: t.TempDir(), BuildIDDir: t.TempDir()}}
	id := locator.OwnID(dso.VDSO, dso.BuildID{})
	if id.IsZero() {
		t.Skip("no vdso with a build ID is mapped here")
	}
	debug := filepath.Join(locator.DebugDir, ".build-id", id.String()[:2], id.String()[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", "-g", "-xc", "-", "-o", debug, "-Wl,--build-id=0x"+id.String())
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, out)
	}
	var out bytes.Buffer
	p := &Packer{Writer: NewWriter(&out), Locator: locator}
	if err := p.Writer.Add(recording, noon, bytes.NewReader(noise(100))); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddDSO(DSO{Paths: []string{dso.VDSO}, ID: id, NoID: []string{dso.VDSO}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Writer.Close(); err != nil {
		t.Fatal(err)
	}
	packed := mustOpen(t, out.Bytes()).Locator()
	code, err := packed.Find(dso.VDSO, dso.BuildID{})
	if err != nil || code.BuildID() != id || !code.HasCode() {
		t.Errorf("the vdso is not packed: %v", err)
	}
	code.Close()
	dwarf, supp, err := packed.Debug(dso.VDSO, dso.BuildID{})
	if err != nil || dwarf.BuildID() != id {
		t.Errorf("its debug information is not packed: %v", err)
	}
	dwarf.Close()
	supp.Close()
}
