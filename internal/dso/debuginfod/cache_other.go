//go:build !linux

package debuginfod

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// partial is a file that is being received, with a name of its own.
type partial struct{ *os.File }

// partialSuffix is the end of the names of partial files, before a number.
const partialSuffix = ".partial-"

func newPartial(path string) (*partial, error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+partialSuffix)
	return &partial{file}, err
}

// keep closes the file and gives it a path, replacing a file that is there.
func (p *partial) keep(path string) error {
	p.File.Close() // Windows renames no open file, and replaces none that is read-only
	os.Remove(path)
	return os.Rename(p.Name(), path)
}

// Close closes the file, and removes it unless keep was called.
func (p *partial) Close() error {
	err := p.File.Close()
	os.Remove(p.Name()) // which fails after keep
	return err
}

// stale is the age after which nothing more is received into a file.
const stale = 24 * time.Hour

// removePartials removes the partial files that killed gperfs left in the cache.
func removePartials(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "*", "*"+partialSuffix+"*"))
	for _, path := range left {
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()) > stale {
			os.Remove(path)
		}
	}
}

// lastUse returns when a file was used.
func lastUse(info fs.FileInfo) time.Time { return info.ModTime() }

// use sets the time of the last use, so that clean keeps the file.
func use(path string, _ fs.FileInfo) {
	now := time.Now()
	os.Chtimes(path, now, now)
}
