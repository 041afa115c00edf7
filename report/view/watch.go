package view

import (
	"context"
	"os"
	"time"
)

// Change says how a file changed.
type Change int

const (
	Grew     Change = iota // the file has more bytes, or was written
	Replaced               // the path names another file, or the file was emptied and written again
	Removed
)

// often is how often files are checked. Notifications of the kernel do not reach network file systems.
const often = time.Second

// Watch calls changed for each change of the file fd, which is at path, until ctx is done or the file is replaced or
// removed.
func Watch(ctx context.Context, fd *os.File, path string, changed func(Change)) {
	last, err := fd.Stat()
	if err != nil {
		return
	}
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := os.Stat(path)
		switch {
		case err != nil:
			changed(Removed)
			return
		case !os.SameFile(last, now) || now.Size() < last.Size():
			changed(Replaced)
			return
		case now.Size() != last.Size() || !now.ModTime().Equal(last.ModTime()):
			last = now
			changed(Grew)
		}
	}
}
