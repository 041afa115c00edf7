package dso

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

func packXZ(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := xz.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// withMini is a stripped program with .gnu_debugdata.
func withMini(contents []byte) []byte {
	return elfFile{sections: []elfSection{
		{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, data: []byte{0xc3}},
		{name: ".note.gnu.build-id", typ: elf.SHT_NOTE, flags: elf.SHF_ALLOC, data: gnuNote([]byte(idA))},
		{name: ".gnu_debugdata", typ: elf.SHT_PROGBITS, data: contents},
	}}.bytes()
}

func TestMiniDebug(t *testing.T) {
	packed := packXZ(t, withID("", true))
	if mini := imageOf(t, withMini(packed)).MiniDebug(); mini == nil || !mini.HasSymtab() {
		t.Errorf("%v, want a file with a .symtab", mini)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "no xz": []byte("text"), "cut": packed[:len(packed)/2], "no ELF": packXZ(t, []byte("text")),
	} {
		t.Run(name, func(t *testing.T) {
			if mini := imageOf(t, withMini(b)).MiniDebug(); mini != nil {
				t.Errorf("%v", mini)
			}
		})
	}
	path := writeFile(t, t.TempDir()+"/x", withMini(packed))
	syms, runtime, err := new(Locator).FindSymbols(path, BuildID{})
	if err != nil || syms == runtime || !syms.HasSymtab() || runtime.Path != path {
		t.Errorf("symbols of %v, runtime %v, %v", syms, runtime, err)
	}
	runtime.Close()
}

// A stream that asks for more memory than its contents take is refused.
func TestXZSize(t *testing.T) {
	packed := packXZ(t, make([]byte, 100_000))
	if size, err := xzSize(packed); size != 100_000 || err != nil {
		t.Errorf("%d, %v; want 100000", size, err)
	}
	greedy := bytes.Clone(packed)
	i := bytes.Index(greedy, []byte{0x21, 1})
	greedy[i+2] = 40 // 4 GB
	if size, err := xzSize(greedy); err == nil {
		t.Errorf("a dictionary of 4 GB is taken: %d", size)
	}
}

// TestXZOfTool unpacks the output of xz with several options, in one block or more.
func TestXZOfTool(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not installed (package xz-utils)")
	}
	text := bytes.Repeat([]byte("some text, and some more of it\n"), 40_000)
	for _, args := range [][]string{{}, {"-9"}, {"-0", "-T2", "--block-size=200000"}, {"--check=none"},
		{"--check=sha256", "--block-size=300001"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			cmd := exec.Command("xz", append(args, "-c")...)
			cmd.Stdin = bytes.NewReader(text)
			packed, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := unpackXZ(packed); err != nil || !bytes.Equal(got, text) {
				t.Errorf("xz %q: %d bytes, %v", args, len(got), err)
			}
		})
	}
}

// FuzzXZ checks that any bytes are rejected or unpack to the announced size.
func FuzzXZ(f *testing.F) {
	f.Add(packXZ(f, withID(idA, true)))
	f.Add(packXZ(f, make([]byte, 5000)))
	f.Add([]byte("\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := unpackXZ(b); err == nil && len(out) > maxMini {
			t.Errorf("%d bytes", len(out))
		}
	})
}
