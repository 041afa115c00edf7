package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gperf/format"
	"gperf/internal/untrusted"
)

// MakeDir creates the directory of a recording with a directory for the kernel's code. It
// renames an existing path to path.old.
func MakeDir(path string) error {
	if err := keepOld(path); err != nil {
		return &Error{path, err}
	}
	for _, dir := range []string{path, filepath.Join(path, format.DirKcore)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return &Error{path, err}
		}
	}
	return nil
}

// createFile creates the file, readable by its owner only. It renames an existing file to
// path.old.
func createFile(path string) (*os.File, error) {
	if err := keepOld(path); err != nil {
		return nil, err
	}
	return untrusted.Create(path, 0o600)
}

// keepOld renames the recording at path, a file or a directory, to path.old.
func keepOld(path string) error {
	old := path + ".old"
	st, err := os.Stat(path)
	switch {
	case err != nil || st.Mode().IsRegular() && st.Size() == 0:
		return nil
	case st.IsDir() && isRecording(path), st.Mode().IsRegular():
		if err := removeRecording(old); err != nil {
			return err
		}
		return os.Rename(path, old)
	case st.Mode()&os.ModeCharDevice != 0:
		return nil
	}
	return errors.New("neither a regular file nor the directory of a recording")
}

// isRecording reports whether a directory is a recording.
func isRecording(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, format.DirData))
	return err == nil && st.Mode().IsRegular()
}

// removeRecording removes the directory of a recording, unless it contains other files. It removes nothing elsewhere,
// if there is a link.
func removeRecording(dir string) error {
	named, err := os.Lstat(dir)
	if err != nil || !named.IsDir() || !isRecording(dir) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if opened, err := root.Stat("."); err != nil || !os.SameFile(named, opened) {
		return errors.Join(err, fmt.Errorf("%s was replaced", dir))
	}
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range list {
		switch {
		case e.Name() == format.DirKcore:
			err = root.RemoveAll(e.Name())
		case e.Name() == format.DirData || strings.HasPrefix(e.Name(), format.DirData+"."):
			err = root.Remove(e.Name())
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// timestamp appends the time, in hundredths of seconds, to a file's name, as perf does; it
// skips names that exist.
func timestamp(path string) (string, error) {
	for t := time.Now(); ; t = t.Add(10 * time.Millisecond) {
		name := fmt.Sprintf("%s.%s%02d", path, t.Format("20060102150405"), t.Nanosecond()/1e7)
		if _, err := os.Lstat(name); err == nil {
			continue
		} else if !os.IsNotExist(err) {
			return "", err
		}
		return name, os.Rename(path, name)
	}
}

// DropOldest adds a finished file to those to keep. It removes the oldest one if their number
// is limited.
func (o *Output) DropOldest(newest string) {
	most := o.opts.MaxFiles
	if most == 0 {
		return
	}
	o.kept = append(o.kept, newest)
	if len(o.kept) > most {
		os.Remove(o.kept[0])
		o.kept = o.kept[1:]
	}
}
