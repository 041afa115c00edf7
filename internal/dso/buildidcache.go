package dso

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// BuildIDCache is perf's cache of the files that recordings name, by build ID. For a file, it contains a directory
// NAME/ID, and a link .build-id/xx/yyyy to this directory. Files without build ID are in a directory .inode, which perf
// does not read.
type BuildIDCache struct {
	Dir    string // "": there is none
	packed bool   // in an archive
}

// errNoCache means that there is no directory for perf's build-ID cache.
var errNoCache = errors.New("no home directory")

// Path returns the path of a file: base is "elf", "debug", "vdso" or "kallsyms". It returns "" if there is no cache or
// neither an ID nor an inode.
func (c BuildIDCache) Path(id BuildID, base string) string {
	hex := id.String()
	if i, ok := id.Inode(); ok && c.Dir != "" {
		return filepath.Join(c.Dir, ".inode", i.String(), base)
	}
	if c.Dir == "" || len(hex) < 3 {
		return ""
	}
	entry := filepath.Join(c.Dir, ".build-id", hex[:2], hex[2:])
	// Before perf 4.11 the entry was a link to the file, not to the directory.
	if st, err := os.Stat(entry); !c.packed && err == nil && st.Mode().IsRegular() && base != "debug" {
		return entry
	}
	return filepath.Join(entry, base)
}

// named returns the path of the file recorded under a name, or "".
func (c BuildIDCache) named(name string, id BuildID) string {
	if c.Dir == "" || id.IsZero() {
		return ""
	}
	return filepath.Join(c.Dir, name, id.String(), "elf")
}

// openInode opens the copy that a recorder kept of a file with an inode, or returns nil. The time of a copy is the
// file's. A copy of a file written after the recording is not used, because that file is another one, which got the
// inode later.
func (c BuildIDCache) openInode(i Inode) *Image {
	path := c.Path(i.ID(), "elf")
	st, err := os.Stat(path)
	if err != nil || i.Until != 0 && st.ModTime().UnixNano() > i.Until {
		return nil
	}
	im, err := disk.image(path)
	if err != nil {
		return nil
	}
	return im
}

// Kallsyms returns the path of a kernel's kallsyms.
func (c BuildIDCache) Kallsyms(id BuildID) string { return c.proc("kallsyms", id) }

// proc returns the path of a kernel's file of /proc, or "" if there is no cache or no ID.
func (c BuildIDCache) proc(base string, id BuildID) string {
	if c.Dir == "" || id.IsZero() {
		return ""
	}
	return filepath.Join(c.Dir, "[kernel."+base+"]", id.String(), base)
}

// Store stores an ELF file for the DSO recorded under a name. fill writes the contents. Store replaces a file of the
// same ID.
func (c BuildIDCache) Store(name string, id BuildID, fill func(*os.File) error) error {
	if c.Dir == "" {
		return errNoCache
	}
	if id.IsZero() {
		return fillFile(c.Path(id, "elf"), fill)
	}
	hex := id.String()
	link := filepath.Join(c.Dir, ".build-id", hex[:2], hex[2:])
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := c.storeNamed(name, id, fill); err != nil {
		return err
	}
	err := os.Symlink(filepath.Join("..", "..", name, hex), link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// storeNamed stores a file as Store does, but without the link: it is found by name and ID together.
func (c BuildIDCache) storeNamed(name string, id BuildID, fill func(*os.File) error) error {
	if c.Dir == "" {
		return errNoCache
	}
	return fillFile(c.named(name, id), fill)
}

// fillFile makes a file, and the directories above it. The file exists only when the contents are complete.
func fillFile(path string, fill func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "new.")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err = errors.Join(fill(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
