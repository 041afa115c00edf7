package annotate

import (
	"os"
	"path/filepath"
	"strings"
)

// Sources says where source files lie that debug information names.
type Sources struct {
	Prefix string // goes before absolute paths, "" for none
	Strip  int    // so many folders of the path go first
}

// path is where the file lies.
func (s *Sources) path(file string) string {
	if s.Prefix == "" || !filepath.IsAbs(file) {
		return file
	}
	parts := strings.Split(strings.TrimPrefix(filepath.Clean(file), "/"), "/")
	return filepath.Join(s.Prefix, filepath.Join(parts[min(s.Strip, len(parts)-1):]...))
}

// maxSource bounds a source file, in bytes.
const maxSource = 64 << 20

// linesOf returns the lines of a source file, none where it is not there.
func (a *annotator) linesOf(file string) []string {
	lines, ok := a.files[file]
	if !ok {
		lines = readLines(a.opts.Sources.path(file))
		a.files[file] = lines
	}
	return lines
}

func readLines(path string) []string {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxSource {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}
