package dso

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"gperf/internal/untrusted"
)

// Generated is an open file in which a process lists the code that it generates: a perf map or a jitdump.
type Generated struct {
	PID  int32
	Name string // as of OpenOf
	*os.File
}

// Elsewhere reports whether a process runs in another mount or PID namespace than this one: the files that it
// writes may disappear when it exits, and their names are valid only there.
func Elsewhere(pid int32) bool {
	return innerPID(pid) != pid || !sameNamespace(filepath.Join(proc, fmt.Sprint(pid)))
}

// OpenGenerated opens a file that a running process wrote, in the process's namespaces. name is as of OpenOf.
func OpenGenerated(pid int32, name string) (Generated, error) {
	inside := strings.ReplaceAll(name, "%d", fmt.Sprint(innerPID(pid)))
	file, err := untrusted.Open(filepath.Join(proc, fmt.Sprint(pid), "root", inside))
	return Generated{pid, name, file}, err
}

// GeneratedDir returns the directory in perf's cache with the files of generated code that were kept for a recording,
// "" if there is no cache.
func GeneratedDir(recording string) string {
	dir := new(Tree).Cache().Dir
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, ".generated", recording)
}

// keptPath returns the path of a kept file in a directory of GeneratedDir.
func keptPath(dir string, pid int32, name string) string {
	inside := strings.ReplaceAll(name, "%d", fmt.Sprint(pid))
	return filepath.Join(dir, fmt.Sprint(pid), filepath.FromSlash(path.Clean("/"+inside)))
}

// KeepGenerated stores a file of generated code in a directory of GeneratedDir, for the file's owner, whom readers
// trust as much as before.
func (k *Kept) KeepGenerated(dir string, g Generated) error {
	if err := k.keepGenerated(keptPath(dir, g.PID, g.Name), g.File); err != nil {
		return fmt.Errorf("keeping a copy of %s of process %d: %w", g.Name, g.PID, err)
	}
	return nil
}

func (k *Kept) keepGenerated(to string, file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	if err := k.hasRoom(new(Tree).Cache(), st); err != nil {
		return err
	}
	err = fillFile(to, func(out *os.File) error {
		_, err := io.Copy(out, io.NewSectionReader(file, 0, st.Size()))
		return errors.Join(err, keepOwner(out, st), os.Chtimes(out.Name(), time.Time{}, st.ModTime()))
	})
	if err == nil {
		k.Generated++
		k.count(st)
	}
	return err
}

// keepOwner gives a copy to the owner of the original.
func keepOwner(out *os.File, original fs.FileInfo) error {
	owner, known := untrusted.OwnerOf(original)
	if !known || int(owner) == os.Geteuid() {
		return nil
	}
	return out.Chown(int(owner), -1)
}
