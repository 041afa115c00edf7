package stacks

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/bpf"
	"gperf/format"
	"gperf/internal/dso"
)

// TestPrepare checks that the table of a file is in BPF before a process maps the file.
func TestPrepare(t *testing.T) {
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip(err)
	}
	id, err := dso.BuildIDOf(path)
	if err != nil || id.IsZero() {
		t.Skipf("%s has no build ID: %v", path, err)
	}
	u, err := bpf.Load(bpf.Options{Programs: []bpf.Program{bpf.OnEvent}, CPUs: 1, Rows: 1 << 18})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("CAP_BPF is missing: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{opts: Options{Verbose: func(string) {}}}
	r.init(u)
	defer r.Close()
	r.procs.tracker.buildIDs = true
	r.tables.builder = newBuilder(func() {}, false, nil)
	r.Prepare([]string{path, "/no/such/file"})
	r.AwaitPrepared()
	p := r.procs.tracker.replace(1, &addrSpace{})
	r.procs.tracker.record(&format.Mmap{V2: true, Misc: format.MiscUser, PID: 1, TID: 1, Start: 0x1000, Len: 0x1000,
		Prot: format.ProtExec, Filename: path, BuildID: id.Bytes()})
	if f := p.space.find(0x1000).file; f.state != fileReady || !f.loaded {
		t.Errorf("the file's state is %d, loaded %v", f.state, f.loaded)
	}
}
