package symbolize

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"gperf/internal/dso"
)

// TestUserCall: a return address after a call that never returns belongs to the function before it, even if another
// one starts there. Where no call ends, it belongs to the function that starts there.
func TestUserCall(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the code is of x86-64")
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.s"), filepath.Join(dir, "a.so")
	const code = `.text
.globl dies, next, plain
.type dies, @function
dies:	nop
	call *8(%rax)
.size dies, .-dies
.type next, @function
next:	nop
	nop
.size next, .-next
	nop
	nop
.type plain, @function
plain:	nop
	call *%rax
.size plain, .-plain
	nop
`
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-shared", "-nostdlib", "-o", path, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	off := map[string]uint64{}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	for _, s := range list {
		off[s.Name] = s.Value - text.Addr + text.Offset
		off["after "+s.Name] = off[s.Name] + s.Size
	}
	s := New(Options{})
	for at, want := range map[string]string{"next": "dies+0x3", "plain": "plain", "after plain": "plain+0x2"} {
		site := s.UserCall(path, dso.BuildID{}, off[at])
		if got := symbolText(s.User(path, dso.BuildID{}, site)); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
