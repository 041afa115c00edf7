package dso

import (
	"errors"
	"fmt"
	"iter"
	"sync"
)

// Inode identifies a file on the recorded machine that was recorded without build ID. The zero value means none.
type Inode struct {
	Major, Minor uint32 // of the device
	Number       uint64
	Gen          uint64 // the inode's generation; 0: unknown
	Until        int64  // when the recording ended, in ns since 1970: a file written later is another one; 0: unknown
}

// ByInode returns the BuildID of a file that was recorded without one at path. Recordings of the same file get the same
// BuildID if the file is still there.
func (l *Locator) ByInode(path string, i Inode) BuildID {
	if l.Root != "" || i.isAt(path) {
		i.Until = 0 // nothing is compared, or the file is there
	}
	return i.ID()
}

// ID returns the BuildID for a file without build ID.
func (i Inode) ID() BuildID { return BuildID{inode: i} }

// Inode returns the recorded inode of a file without build ID. ok is false if there is none.
func (id BuildID) Inode() (i Inode, ok bool) { return id.inode, id.IsZero() && id.inode.Number != 0 }

// String returns the device and the number, as in "8:1-4711", and the generation if it is known.
func (i Inode) String() string {
	s := fmt.Sprintf("%d:%d-%d", i.Major, i.Minor, i.Number)
	if i.Gen != 0 {
		s += fmt.Sprintf("-%d", i.Gen)
	}
	return s
}

// ErrReplaced means that a file was recorded without build ID, and that the inode of the file at the recorded path
// differs, or that the file was written after the recording.
var ErrReplaced = errors.New("another file, or changed since it was recorded")

// comparesInode reports whether a DSO is identified by inode. Inodes of copies, in other directories or in
// archives, differ from the recorded inode.
func (t *Tree) comparesInode(id BuildID) bool {
	_, ok := id.Inode()
	return ok && t.Root == "" && t.files == nil
}

// withInode yields the ELF files of the DSO recorded at path without build ID: the file with the inode, and debug
// information next to it. It yields an error if there is no such file.
func (l *Locator) withInode(path string, i Inode) iter.Seq2[*Image, error] {
	return func(yield func(*Image, error) bool) {
		im, tree, err := l.openInode(path, i)
		if tree == nil {
			yield(im, err)
			return
		}
		im.Close()
		for im, err := range tree.candidates(path, BuildID{}) {
			if !yield(im, err) {
				return
			}
		}
	}
}

// openInode opens the file with an inode: at path in this process's or another process's tree of files, through a
// process that maps it, or the copy that a recorder kept. tree is nil for the latter two, and with an error.
func (l *Locator) openInode(path string, i Inode) (im *Image, tree *Tree, err error) {
	if !isAbs(path) {
		return nil, nil, fmt.Errorf("open %s: %w", path, ErrNoFile)
	}
	im, err = l.Tree.openInode(path, i)
	if err == nil {
		return im, &l.Tree, nil
	}
	for _, root := range l.trees.roots() {
		t := &Tree{Root: root}
		if im, err := t.openInode(path, i); err == nil {
			return im, t, nil
		}
	}
	if at := mappedInodes()[i.key()]; at != "" {
		if im, err := disk.openInode(at, i); err == nil {
			return im, nil, nil
		}
	}
	if im := l.Cache().openInode(i); im != nil {
		return im, nil, nil
	}
	if l.Force {
		if im, err := l.image(path); err == nil {
			return im, &l.Tree, nil
		}
	}
	return nil, nil, err
}

// openInode opens the tree's file at path if its inode is i.
func (t *Tree) openInode(path string, i Inode) (*Image, error) {
	own := t.recordedPath(path)
	im, err := t.image(own)
	if err != nil {
		return nil, err
	}
	if !i.isAt(own) {
		im.Close()
		return nil, fmt.Errorf("%s: %w", own, ErrReplaced)
	}
	return im, nil
}

// inodeKey is the part of an inode in /proc/PID/maps.
type inodeKey struct {
	major, minor uint32
	number       uint64
}

func (i *Inode) key() inodeKey { return inodeKey{i.Major, i.Minor, i.Number} }

// mappedInodes returns paths at which root can read the files with code that processes map, such as deleted ones.
var mappedInodes = sync.OnceValue(func() map[inodeKey]string {
	paths := map[inodeKey]string{}
	for dir, m := range allMappings {
		if m.Inode != 0 && m.Executable() {
			paths[inodeKey{m.Major, m.Minor, m.Inode}] = mapFile(dir, m.Start, m.End)
		}
	}
	return paths
})
