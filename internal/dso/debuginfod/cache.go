package debuginfod

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gperf/internal/dso"
)

// errUnknown: the cache contains no entry.
var errUnknown = errors.New("not in the cache")

// cached returns nil if the cache contains the file at path, errNotThere if servers lacked it recently, or else
// errUnknown. An empty file marks a file that servers lack; elfutils before 0.186 used one without read permission.
func (c *Client) cached(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil || !st.Mode().IsRegular():
		return errUnknown
	case st.Size() > 0 && st.Mode().Perm() != 0:
		use(path, st)
		return nil
	case time.Since(st.ModTime()) <= c.seconds("cache_miss_s", defaultMissFor):
		return errNotThere
	}
	os.Remove(path)
	return errUnknown
}

// seconds reads a file of the cache's that holds a number of seconds.
func (c *Client) seconds(name string, otherwise time.Duration) time.Duration {
	b, err := os.ReadFile(filepath.Join(c.Dir, name))
	if err != nil {
		return otherwise
	}
	s, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || s < 0 {
		return otherwise
	}
	return time.Duration(s) * time.Second
}

// missing notes in the cache that no server offers the file.
func missing(path string) {
	if fd, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		fd.Close()
	}
}

// elfutils' defaults for settings missing in the cache.
const (
	defaultCleanEvery = 24 * time.Hour
	defaultUnusedFor  = 7 * 24 * time.Hour
)

// clean removes long unused files from the cache, once a day, as elfutils does.
// Files in the cache set the interval and the age. The interval file's mtime is
// the time of the last cleaning.
func (c *Client) clean() {
	const often = "cache_clean_interval_s"
	mark := filepath.Join(c.Dir, often)
	st, err := os.Stat(mark)
	if err != nil {
		// without it, the next one tries
		os.WriteFile(mark, []byte(strconv.Itoa(int(defaultCleanEvery.Seconds()))), 0o644)
		return
	}
	if time.Since(st.ModTime()) < c.seconds(often, defaultCleanEvery) {
		return
	}
	now := time.Now()
	os.Chtimes(mark, now, now)
	unused := c.seconds("max_unused_age_s", defaultUnusedFor)
	entries, _ := os.ReadDir(c.Dir)
	for _, e := range entries {
		if _, err := dso.ParseBuildID(e.Name()); err != nil || !e.IsDir() {
			continue
		}
		dir := filepath.Join(c.Dir, e.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			info, err := f.Info()
			if err == nil && info.Mode().IsRegular() && now.Sub(lastUse(info)) > unused {
				os.Remove(filepath.Join(dir, f.Name()))
			}
		}
		os.Remove(dir) // which fails unless it is empty
	}
}
