package program

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func FuzzStapNotes(f *testing.F) {
	note := "\x08\x00\x00\x00\x1f\x00\x00\x00\x03\x00\x00\x00stapsdt\x00" +
		strings.Repeat("\x01", 24) + "a\x00b\x00-4@\x00"
	f.Add([]byte(note+"\x00"+note), 8)
	f.Add([]byte(note[:30]), 4)
	f.Fuzz(func(t *testing.T, b []byte, word int) {
		for desc := range stapNotes(b) {
			if m, _, ok := decodeNote(desc, 4+word&4); ok && (m.Provider == "" || m.Name == "") {
				t.Errorf("a probe without a name: %+v", m)
			}
		}
	})
}

// TestUSDTAgainstReadelf compares with readelf, which reads the same notes.
func TestUSDTAgainstReadelf(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("readelf is not installed (package binutils)")
	}
	path := usdtC.Path(t)
	out, err := exec.Command(readelf, "-nW", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(
		`Provider: (\S+)\s+Name: (\S+)\s+Location: 0x0*([0-9a-f]+), Base: \S+, Semaphore: ` +
			`0x0*([0-9a-f]+)\s+Arguments: (.*)`).FindStringSubmatch(string(out))
	l, err := new(Locator).USDT(path)
	if err != nil || len(l) != 1 || m == nil {
		t.Fatalf("%+v, %v\n%s", l, err, out)
	}
	if got := []string{l[0].Provider, l[0].Name, hexed(l[0].vaddr), hexed(l[0].semaphore),
		l[0].Args}; !slices.Equal(got, m[1:]) {
		t.Errorf("%q, readelf says %q", got, m[1:])
	}
}
