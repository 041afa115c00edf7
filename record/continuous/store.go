package continuous

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// store is the files of a directory. It deletes the oldest ones to make room for the next. Only one process uses a
// directory at a time.
type store struct {
	dir   *os.File // locked
	host  string
	max   int64
	files []stored // the oldest first, without the one that is written
	total int64    // size of files
}

// stored is a finished file.
type stored struct {
	name string
	size int64 // on the disk
	time time.Time
}

// LockedError means that another process records into the directory.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string { return e.Dir + ": another gperf records into this directory" }

// openStore opens a directory, which it creates if necessary. Its files may be of other hosts and earlier recordings.
func openStore(path string, most int64) (*store, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir, max: most}
	if err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = &LockedError{path}
	}
	if err == nil {
		s.host, err = os.Hostname()
	}
	if err == nil {
		err = s.scan()
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return s, nil
}

func (s *store) close() { s.dir.Close() }

// fileTime is the time in names of files: UTC, because local times repeat in autumn.
const fileTime = "2006-01-02T15:04:05Z"

// ours matches the names that next makes.
var ours = regexp.MustCompile(`^.+-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(-\d+)?\.data$`)

// scan finds the files of earlier recordings. A killed recorder leaves an unfinished one.
func (s *store) scan() error {
	list, err := os.ReadDir(s.dir.Name())
	if err != nil {
		return err
	}
	for _, e := range list {
		if ours.MatchString(e.Name()) && e.Type().IsRegular() {
			s.add(filepath.Join(s.dir.Name(), e.Name()))
		}
	}
	slices.SortFunc(s.files, func(a, b stored) int {
		return cmp.Or(a.time.Compare(b.time), cmp.Compare(a.name, b.name))
	})
	return nil
}

// add adds a finished file.
func (s *store) add(path string) {
	st, err := os.Stat(path)
	if err != nil {
		return // somebody deleted it
	}
	size := st.Size()
	if u, ok := st.Sys().(*syscall.Stat_t); ok {
		const block = 512
		size = max(size, u.Blocks*block)
	}
	s.files = append(s.files, stored{filepath.Base(path), size, st.ModTime()})
	s.total += size
}

// next makes room for a file, and returns its path. Files are named by host and time; a file of the same second gets a
// number.
func (s *store) next() string {
	part := s.max / partsOfTotal
	s.trim(s.max - part - part/4) // a file ends after the drain that makes it large enough
	now := time.Now().UTC().Round(time.Second)
	base := fmt.Sprintf("%s-%s", strings.ReplaceAll(s.host, "/", "_"), now.Format(fileTime))
	for n := 1; ; n++ {
		name := base + ".data"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.data", base, n)
		}
		path := filepath.Join(s.dir.Name(), name)
		if _, err := os.Lstat(path); os.IsNotExist(err) || err != nil {
			return path
		}
	}
}

// trim deletes the oldest files until the others take at most so many bytes.
func (s *store) trim(most int64) {
	n := 0
	for ; n < len(s.files) && s.total > most; n++ {
		os.Remove(filepath.Join(s.dir.Name(), s.files[n].name)) // or somebody else did
		s.total -= s.files[n].size
	}
	s.files = slices.Delete(s.files, 0, n)
}
