package stacks

import (
	"os"
	"time"

	"gperf/format"
	"gperf/internal/dso"
)

// Prepare starts building the unwind tables of files that a program will map, before it runs: while tables are
// missing, frequent events cause more samples than there is room in the rings for copies of stacks. Files that
// cannot be read are left to the samples' requests, as are all on kernels that do not identify files by build ID
// (before Linux 5.12).
func (r *Recorder) Prepare(paths []string) {
	if !r.procs.tracker.buildIDs {
		return
	}
	for _, path := range paths {
		im, err := dso.Open(path)
		if err != nil {
			continue
		}
		id := im.BuildID()
		im.Close()
		if id.IsZero() {
			continue
		}
		m := format.Mmap{PID: int32(os.Getpid()), Filename: path, BuildID: id.Bytes()}
		r.tables.requestFile(r.procs.tracker.file(&m))
	}
}

// maxPrepare limits how long AwaitPrepared delays a program.
const maxPrepare = 2 * time.Second

// AwaitPrepared returns once the tables that Prepare requested are in BPF, or after two seconds.
func (r *Recorder) AwaitPrepared() {
	end := time.Now().Add(maxPrepare)
	for r.procs.tracker.isBuilding() && time.Now().Before(end) && !r.opts.isHurried() {
		time.Sleep(time.Millisecond)
		r.tables.loadBuilt()
	}
}
