package stacks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/untrusted"
)

// Kept counts the files that were stored in perf's build-ID cache.
type Kept struct {
	Files   int
	Bytes   int64
	TooMany int // files that were not stored, because the recording held maxHeld others
}

const (
	maxHeld = 256     // files that are open until they are stored
	maxKept = 1 << 30 // bytes that a recording stores
)

// keeper keeps programs and libraries with samples, because a reader may not find them later: when they are built
// again, or their container is gone. It opens them when their tables are built, and stores them when a recording ends.
// A nil keeper keeps none.
type keeper struct {
	mu   sync.Mutex
	held []heldFile
	seen map[dso.BuildID]bool
	kept Kept
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
	if stays(name, file) {
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

// stays reports whether a file belongs to the system: packages bring their symbols back after an update.
func stays(name string, file *os.File) bool {
	system := slices.ContainsFunc([]string{"/usr/", "/lib", "/bin/", "/sbin/"}, func(dir string) bool {
		return strings.HasPrefix(name, dir) && !strings.HasPrefix(name, "/usr/local/")
	})
	there, err := os.Stat(name)
	if err != nil || !system {
		return false
	}
	own, err := file.Stat()
	return err == nil && os.SameFile(there, own)
}

// store stores the held files and closes them. It returns what was stored so far, and the first error.
func (k *keeper) store() (kept Kept, err error) {
	if k == nil {
		return Kept{}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.held {
		if e := k.add(f); err == nil && e != nil {
			err = fmt.Errorf("keeping a copy of %s: %w", f.name, e)
		}
		f.Close()
	}
	k.held = nil
	return k.kept, err
}

func (k *keeper) add(f heldFile) error {
	tree := new(dso.Tree)
	if _, err := os.Stat(tree.CachePath(f.id, "elf")); err == nil {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if k.kept.Bytes+st.Size() > maxKept {
		return fmt.Errorf("the copies of a recording are limited to %d MB", maxKept>>20)
	}
	err = tree.Store(f.name, f.id, func(to *os.File) error {
		if _, err := io.Copy(to, f.File); err != nil { // shares the blocks if the file system can
			return err
		}
		if id, err := dso.BuildIDOf(to.Name()); err != nil || id != f.id {
			return errors.New("the file was changed during the recording")
		}
		return nil
	})
	if err == nil {
		k.kept.Files++
		k.kept.Bytes += st.Size()
	}
	return err
}
