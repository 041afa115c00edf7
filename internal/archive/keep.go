package archive

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gperf/format"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/internal/untrusted"
	"gperf/symbolize"
)

// keepFor limits how long KeepHits reads a recording.
const keepFor = 5 * time.Second

// ErrPart means that a recording is so large that only a part of it was read.
var ErrPart = errors.New("the recording is large: only the programs of its first part are kept; run gperf archive " +
	"before others change")

// KeepHits stores copies of programs and libraries in perf's build-ID cache in which the recording at path has samples,
// if a reader may not find them later (dso.Stays). It does nothing unless path is a
// regular file. kept has the copies that the recorder made before. The error may be ErrPart.
func KeepHits(kept *dso.Kept, path string) error {
	fd, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) { // the recording went into a pipe
		return nil
	}
	if err != nil {
		return err
	}
	defer fd.Close()
	st, err := fd.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return err
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		return err
	}
	s := session.New(session.Options{File: f, Symbols: symbolize.New(symbolize.Options{})})
	hit, err := hitDSOs(s, time.Now().Add(keepFor))
	for d := range hit {
		err = errors.Join(err, keepDSO(kept, s.Symbols.Locator(), d))
	}
	return err
}

// hitDSOs returns the DSOs of processes that have instructions or callers of samples, up to a moment.
func hitDSOs(s *session.Session, until time.Time) (hit map[*session.DSO]bool, err error) {
	hit = map[*session.DSO]bool{}
	add := func(m *session.Map) { hit[m.DSO] = true }
	var sample format.Sample
	reader := s.File.Records()
	for n := 0; ; n++ {
		raw, err := reader.Next()
		switch {
		case err == io.EOF:
			return hit, nil
		case err != nil:
			return hit, err
		case raw.Type != format.TypeSample:
			if rec, err := s.File.Record(raw); err == nil {
				s.Apply(rec)
			}
		case n%(1<<16) == 1<<16-1 && time.Now().After(until):
			return hit, ErrPart
		case s.File.Sample(raw, &sample) == nil:
			s.UserMaps(&sample, add)
		}
		raw.Release()
	}
}

// keepDSO stores the file of a DSO.
func keepDSO(kept *dso.Kept, l *dso.Locator, d *session.DSO) error {
	if _, hasInode := d.BuildID.Inode(); d.BuildID.IsZero() && !hasInode || !filepath.IsAbs(d.Name) {
		return nil
	}
	im, err := l.Find(d.Name, d.BuildID)
	if err != nil {
		return nil // the report says that it has no names
	}
	defer im.Close()
	file, err := untrusted.Open(im.Path)
	if err != nil {
		return nil // the image is the memory of a process
	}
	defer file.Close()
	name := strings.TrimSuffix(d.Name, " (deleted)")
	if dso.Stays(name, file) {
		return nil
	}
	return kept.Keep(name, d.BuildID, file)
}
