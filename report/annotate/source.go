package annotate

import (
	"errors"
	"path"
	"path/filepath"
	"strings"

	"gperf/internal/untrusted"
)

// Sources maps the source paths in debug information to files.
type Sources struct {
	Prefix string // prefix of absolute paths, "" for none
	Strip  int    // number of leading directories to strip
	All    bool   // show the files that HiddenError is about
}

// HiddenError means that the text of a source file is not shown. Debug information can name any file as a source, and
// root can read all files: so root sees files that all users can read, and files of the program's owner, if the
// program is the file at the recorded path. Users who name a directory for source files see all of it.
type HiddenError struct{ File string }

func (e *HiddenError) Error() string {
	return "source " + e.File + " is not shown: neither all users nor the program's owner may read it"
}

// Hint returns a remedy for the user.
func (e *HiddenError) Hint() string {
	return "Is it the program's source? Then add --prefix / (gperf view: --source). Or run gperf as an ordinary user.\n"
}

// path returns the file's path on this machine.
func (s *Sources) path(file string) string {
	if s.Prefix == "" || !path.IsAbs(file) {
		return file
	}
	parts := strings.Split(strings.TrimPrefix(path.Clean(file), "/"), "/")
	return filepath.Join(s.Prefix, filepath.Join(parts[min(s.Strip, len(parts)-1):]...))
}

// maxSource bounds a source file, in bytes.
const maxSource = 64 << 20

// sourceKey is a source file and the owner of a program that names it.
type sourceKey struct {
	file  string
	known bool
	owner uint32
}

// linesOf returns the lines of a source file of the block's function, or nil if it is missing or not shown.
func (b *block) linesOf(file string) []string {
	var owner *uint32
	if !b.fn.kernel {
		owner = b.annotator.sym.SourceOwner(b.fn.dso.Name, b.fn.dso.BuildID)
	}
	key := sourceKey{file: file}
	if owner != nil {
		key.known, key.owner = true, *owner
	}
	lines, ok := b.annotator.files[key]
	if !ok {
		var err error
		lines, err = b.annotator.opts.Sources.Lines(file, owner)
		b.annotator.files[key] = lines
		if hidden := (*HiddenError)(nil); errors.As(err, &hidden) && b.annotator.hidden == nil {
			b.annotator.hidden = hidden
		}
	}
	return lines
}

// Lines returns the lines of a source file that the debug information of a program with this owner names; nil means an
// unknown one. The error may be a *HiddenError.
func (s *Sources) Lines(file string, owner *uint32) ([]string, error) {
	f, err := untrusted.Open(s.path(file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if s.Prefix == "" && !s.All && !untrusted.MayShow(f, owner) {
		return nil, &HiddenError{file}
	}
	text, err := untrusted.ReadAll(f, maxSource)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}
