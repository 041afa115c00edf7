package names

import (
	"errors"
	"fmt"
	"os"

	"gperf/internal/dso"
)

// Save stores the files in perf's build-ID cache, if functions were added since the last time.
func (s *Set) Save() error {
	if len(s.byValue) == s.saved {
		return nil
	}
	for _, f := range s.files {
		if f.saved == len(f.list) {
			continue
		}
		if err := new(dso.Tree).Cache().Store(f.name, f.id, f.write); err != nil {
			return fmt.Errorf("storing the names of functions: %w", err)
		}
		f.saved = len(f.list)
	}
	s.saved = len(s.byValue)
	return nil
}

func (f *file) write(to *os.File) (err error) {
	for _, p := range f.pieces() {
		_, e := to.WriteAt(p.data, int64(p.off))
		err = errors.Join(err, e)
	}
	return err
}
