package annotate

import (
	"path/filepath"
	"strings"

	"gperf/internal/untrusted"
)

// Sources maps the source paths in debug information to files.
type Sources struct {
	Prefix string // prefix of absolute paths, "" for none
	Strip  int    // number of leading directories to strip
}

// path returns the file's path on this machine.
func (s *Sources) path(file string) string {
	if s.Prefix == "" || !filepath.IsAbs(file) {
		return file
	}
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(file), "/"), "/")
	return filepath.Join(s.Prefix, filepath.Join(parts[min(s.Strip, len(parts)-1):]...))
}

// maxSource bounds a source file, in bytes.
const maxSource = 64 << 20

// linesOf returns the lines of a source file, or nil if it is missing.
func (a *annotator) linesOf(file string) []string {
	lines, ok := a.files[file]
	if !ok {
		lines = a.opts.Sources.Lines(file)
		a.files[file] = lines
	}
	return lines
}

// Lines returns the lines of a source file that debug information names, or nil if it is missing.
func (s *Sources) Lines(file string) []string {
	text, err := untrusted.ReadFile(s.path(file), maxSource)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
