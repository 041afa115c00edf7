// Package input opens the recordings that -i names: it expands patterns and directories, connects a recorder in this
// process or a pipe with a reader, gives up rights for recordings of other users, limits garbage, and warns about
// incomplete recordings after they were read.
package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gperf/format"
	"gperf/internal/archive"
)

// errNone: a directory or a pattern contains no recordings.
var errNone = errors.New("no recordings")

// Expand returns the recordings that words name, in order, and the recordings of one word in the order of paths. It
// returns "-", "", URLs and names of missing files as they are.
func Expand(words []string) (paths []string, err error) {
	for _, word := range words {
		found, err := expand(word)
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

func expand(word string) ([]string, error) {
	st, err := os.Stat(word)
	switch {
	case word == "" || word == "-" || archive.IsURL(word):
	case err == nil && st.IsDir():
		return inDir(word)
	case err != nil && strings.ContainsAny(word, "*?["):
		return matches(word)
	}
	return []string{word}, nil
}

// matches returns the recordings that a pattern matches.
func matches(pattern string) (paths []string, err error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	for _, name := range names {
		st, err := os.Stat(name)
		if err != nil || !st.IsDir() {
			paths = append(paths, name)
			continue
		}
		found, err := inDir(name)
		if err != nil && !errors.Is(err, errNone) {
			return nil, err
		}
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: %w: no file matches", pattern, errNone)
	}
	return paths, nil
}

// inDir returns the directory if it is a recording itself, or else the recordings below it.
func inDir(dir string) (paths []string, err error) {
	if isRecordingDir(dir) {
		return []string{dir}, nil
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && slices.Contains(filesOfStores, d.Name()):
			return fs.SkipDir
		case d.IsDir() && path != dir && isRecordingDir(path):
			paths = append(paths, path)
			return fs.SkipDir
		case !d.IsDir() && isRecording(path):
			paths = append(paths, path)
		}
		return nil
	})
	if _, e := os.Stat(filepath.Join(dir, format.DirData)); e == nil && err == nil && len(paths) == 0 {
		return []string{dir}, nil // a damaged one: opening it returns why
	}
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: %w: neither this directory nor a file below it is one", dir, errNone)
	}
	return paths, err
}

// filesOfStores are directories of ELF files by build ID, without recordings.
var filesOfStores = []string{".build-id", ".debug", "buildid"}

// isRecordingDir reports whether perf record wrote the directory: it contains the file data.
func isRecordingDir(dir string) bool {
	return format.IsRecording(head(filepath.Join(dir, format.DirData)))
}

// isRecording reports whether a file is a recording or an archive of one. Damaged archives count.
func isRecording(path string) bool {
	b := head(path)
	return format.IsRecording(b) || archive.Is(b) && !errors.Is(archive.Check(path), archive.ErrNoRecording)
}

// head returns the first bytes of a regular file, none of others.
func head(path string) []byte {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 8)
	n, _ := f.Read(b)
	return b[:n]
}
