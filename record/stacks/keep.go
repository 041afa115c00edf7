package stacks

import (
	"os"
	"path/filepath"
	"slices"
	"sync"

	"gperf/internal/dso"
	"gperf/internal/untrusted"
)

// Limits of how many files are open until they are stored. Other users get a part of it: they may run very many files
// so that other files are not stored.
const (
	maxHeld       = 256
	maxHeldOthers = maxHeld / 2
)

// keeper keeps programs and libraries with samples, because a reader may not find them later: when they are built
// again, or their container no longer exists. It opens the files when tables are built, and stores the files when
// a recording ends. A nil keeper keeps none.
type keeper struct {
	mu   sync.Mutex
	held []heldFile
	// generated are the perf maps and jitdumps of processes in other namespaces, which may not exist any more when
	// these exit.
	generated []dso.Generated
	seen      map[dso.BuildID]bool
	kept      dso.Kept
}

type heldFile struct {
	name string // as recorded
	id   dso.BuildID
	*os.File
	others bool // it belongs to another user
}

func newKeeper() *keeper { return &keeper{seen: map[dso.BuildID]bool{}} }

// hold opens the file of an image, which was recorded under a name, and by inode if it contains no build ID.
func (k *keeper) hold(name string, im *dso.Image, file fileID) {
	if k == nil || im == nil || !filepath.IsAbs(name) {
		return
	}
	id := im.BuildID()
	if id.IsZero() {
		id = file.inode().ID()
	}
	if _, ok := id.Inode(); !ok && id.IsZero() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen[id] {
		return
	}
	opened, err := untrusted.Open(im.Path)
	if err != nil {
		return // the image is the memory of a process
	}
	name = dso.TrimDeleted(name)
	if dso.Stays(name, opened) {
		opened.Close()
		return
	}
	k.seen[id] = true
	others := isOthers(opened)
	if len(k.held) >= maxHeld || others && k.ofOthers() >= maxHeldOthers {
		opened.Close()
		k.kept.TooMany++
		return
	}
	k.held = append(k.held, heldFile{name, id, opened, others})
}

// ofOthers returns how many of the held files belong to other users.
func (k *keeper) ofOthers() (n int) {
	for _, f := range k.held {
		if f.others {
			n++
		}
	}
	return n
}

func isOthers(file *os.File) bool {
	st, err := file.Stat()
	return err == nil && untrusted.IsOthers(st)
}

// holdGenerated opens a file that a process in another namespace wrote, and reports whether it is there.
func (k *keeper) holdGenerated(pid int32, name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.generated) >= maxHeld {
		return false
	}
	g, err := dso.OpenGenerated(pid, name)
	if err == nil {
		k.generated = append(k.generated, g)
	}
	return err == nil
}

// takeGenerated returns the open perf maps and jitdumps; the caller closes them.
func (k *keeper) takeGenerated() []dso.Generated {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := k.generated
	k.generated = nil
	return taken
}

// drop makes store keep no file with a build ID, because readers find kept files by this alone.
func (k *keeper) drop(id dso.BuildID) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[id] = true
	k.held = slices.DeleteFunc(k.held, func(f heldFile) bool {
		if f.id == id {
			f.Close()
		}
		return f.id == id
	})
}

// store stores the held files and closes them. It returns the files stored so far, and the first error.
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
