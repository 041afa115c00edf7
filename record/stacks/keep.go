package stacks

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/untrusted"
)

// maxHeld is how many files are open until they are stored.
const maxHeld = 256

// keeper keeps programs and libraries with samples, because a reader may not find them later: when they are built
// again, or their container is gone. It opens them when their tables are built, and stores them when a recording ends.
// A nil keeper keeps none.
type keeper struct {
	mu   sync.Mutex
	held []heldFile
	seen map[dso.BuildID]bool
	kept dso.Kept
}

type heldFile struct {
	name string // as recorded
	id   dso.BuildID
	*os.File
}

func newKeeper() *keeper { return &keeper{seen: map[dso.BuildID]bool{}} }

// hold opens the file of an image, which was recorded under a name.
func (k *keeper) hold(name string, im *dso.Image) {
	if k == nil || im == nil || im.BuildID().IsZero() || !filepath.IsAbs(name) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[im.BuildID()] {
		return
	}
	file, err := untrusted.Open(im.Path)
	if err != nil {
		return // the image is the memory of a process
	}
	name = strings.TrimSuffix(name, " (deleted)")
	if dso.Stays(name, file) {
		file.Close()
		return
	}
	k.seen[im.BuildID()] = true
	if len(k.held) >= maxHeld {
		file.Close()
		k.kept.TooMany++
		return
	}
	k.held = append(k.held, heldFile{name, im.BuildID(), file})
}

// store stores the held files and closes them. It returns what was stored so far, and the first error.
func (k *keeper) store() (kept dso.Kept, err error) {
	if k == nil {
		return dso.Kept{}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.held {
		if e := k.kept.Keep(f.name, f.id, f.File); err == nil {
			err = e
		}
		f.Close()
	}
	k.held = nil
	return k.kept, err
}
