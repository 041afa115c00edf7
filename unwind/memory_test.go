package unwind

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"gperf/internal/dso"
	"gperf/internal/procfs"
)

// TestBuildFromMemory checks that the table of a program is the same from its process's memory as
// from its file.
func TestBuildFromMemory(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	defer in.Close()
	file, err := dso.Open(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, err := Build(file)
	if err != nil {
		t.Skip(err)
	}
	pid := int32(cmd.Process.Pid)
	maps, err := procfs.Maps(int(pid))
	if err != nil {
		t.Fatal(err)
	}
	for m := range maps {
		if !m.Executable() {
			continue
		}
		mem, err := dso.OpenMemory(pid, m.Start, m.Inode)
		if errors.Is(err, os.ErrPermission) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		if mem.BuildID() != file.BuildID() {
			t.Errorf("build ID %v, in the file %v", mem.BuildID(), file.BuildID())
		}
		got, err := Build(mem)
		if err != nil {
			t.Fatal(err)
		}
		if got.Stats != want.Stats {
			t.Errorf("%+v, in the file %+v", got.Stats, want.Stats)
		}
		end := (want.Base + uint64(len(want.Pages))) << pageBits
		for vaddr := want.Base << pageBits; vaddr < end; vaddr++ { // rows not from CFI need the section headers
			w, g := want.Lookup(vaddr), got.Lookup(vaddr)
			if w.CFA != CFANone && w.Flags&(FlagInferred|FlagConvention) == 0 && w != g {
				t.Fatalf("%#x: %v, in the file %v", vaddr, g, w)
			}
		}
		if _, err := dso.OpenMemory(pid, m.Start, m.Inode+1); !errors.Is(err, dso.ErrNoFile) {
			t.Errorf("another inode: %v", err)
		}
		return // the program is mapped at the lowest addresses
	}
}
