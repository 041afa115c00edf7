// Package tracefs reads the kernel's tracepoints from tracefs: their names, their numbers,
// and the formats of their data. Package event selects the tracepoints to record; package
// probe manages the tracepoints of probes.
package tracefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
	"gperf/internal/suggest"
)

// FS is the mounted tracefs. It is located, and mounted if necessary, when the first
// tracepoint is requested.
type FS struct {
	Root string // empty: not found yet
}

// NotFoundError means that tracefs is missing and cannot be mounted, or cannot be read.
type NotFoundError struct{ Err error }

func (e *NotFoundError) Error() string { return fmt.Sprintf("no tracefs: %v", e.Err) }
func (e *NotFoundError) Unwrap() error { return e.Err }

// ErrGlob means that a glob has an unbalanced bracket.
var ErrGlob = errors.New("the glob has an unbalanced bracket")

// Tracepoint is an event of tracefs: events/System/Name, and its id.
type Tracepoint struct {
	System, Name string
	ID           uint64
}

// Path returns the path of a file of tracefs; name is relative to its root.
func (t *FS) Path(name string) (string, error) {
	err := t.find()
	return filepath.Join(t.Root, name), err
}

// FetchTypes returns the kernel's list of types of probe arguments, as the README of tracefs names them, "" if it is
// unknown, as for a nil FS.
func (t *FS) FetchTypes() string {
	if t == nil {
		return ""
	}
	path, err := t.Path("README")
	if err != nil {
		return ""
	}
	text, _ := os.ReadFile(path) // without the list, the kernel rejects unknown types
	_, types, _ := strings.Cut(string(text), "\t     type: ")
	if end := strings.Index(types, `<type>\[`); end >= 0 {
		types = types[:end]
	}
	return strings.Trim(strings.Join(strings.Fields(types), " "), ", ")
}

var tracefsPlaces = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// find sets Root. If tracefs is not mounted, it mounts it at its usual place, which requires
// CAP_SYS_ADMIN.
func (t *FS) find() error {
	if t.Root != "" {
		return nil
	}
	var denied error
	for _, dir := range tracefsPlaces {
		_, err := os.Stat(filepath.Join(dir, "events", "header_page"))
		if err == nil {
			t.Root = dir
			return nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = fmt.Errorf("%s: %w", dir, fs.ErrPermission)
		}
	}
	if denied != nil {
		return &NotFoundError{denied}
	}
	if err := unix.Mount("tracefs", tracefsPlaces[0], "tracefs", 0, ""); err != nil {
		return &NotFoundError{fmt.Errorf("cannot mount it at %s: %w", tracefsPlaces[0], err)}
	}
	t.Root = tracefsPlaces[0]
	return nil
}

// Find returns the tracepoints whose system and name match the two globs, in the order of the
// directories.
func (t *FS) Find(system, name string) ([]Tracepoint, error) {
	if err := t.find(); err != nil {
		return nil, err
	}
	systems, err := t.match(".", system)
	if err != nil {
		return nil, err
	}
	var l []Tracepoint
	for _, s := range systems {
		// The function tracer's own formats are not events that can be opened.
		if s == "ftrace" && s != system {
			continue
		}
		names, err := t.match(s, name)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			id, err := t.ID(s, n)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a directory without id is not an event
			}
			if err != nil {
				return nil, err
			}
			l = append(l, Tracepoint{s, n, id})
		}
	}
	return l, nil
}

// Names returns the directories of all tracepoints, "system/name", unsorted, without the
// function tracer's own formats, which are not events.
func (t *FS) Names() ([]string, error) {
	if err := t.find(); err != nil {
		return nil, err
	}
	systems, err := t.list(".")
	if err != nil {
		return nil, &NotFoundError{err}
	}
	var l []string
	for _, s := range systems {
		if s == "ftrace" {
			continue
		}
		names, err := t.list(s)
		if err != nil {
			return nil, &NotFoundError{err}
		}
		for _, n := range names {
			l = append(l, s+"/"+n)
		}
	}
	return l, nil
}

// match returns the entries of events/dir that match the glob; it looks up a name without
// wildcards directly.
func (t *FS) match(dir, glob string) ([]string, error) {
	if !strings.ContainsAny(glob, `*?[\`) {
		// A name must be one element of a path, and a directory.
		if glob == "" || strings.ContainsAny(glob, "/") || strings.Trim(glob, ".") == "" {
			return nil, nil
		}
		st, err := os.Stat(filepath.Join(t.Root, "events", dir, glob))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, &NotFoundError{err}
		case !st.IsDir():
			return nil, nil
		}
		return []string{glob}, nil
	}
	all, err := t.list(dir)
	if err != nil {
		return nil, &NotFoundError{err}
	}
	var l []string
	for _, n := range all {
		ok, err := path.Match(glob, n)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", ErrGlob, glob)
		}
		if ok {
			l = append(l, n)
		}
	}
	return l, nil
}

// list returns the directories in events/dir in the kernel's order.
func (t *FS) list(dir string) ([]string, error) {
	f, err := os.Open(filepath.Join(t.Root, "events", dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	var l []string
	for _, e := range entries {
		if e.IsDir() {
			l = append(l, e.Name())
		}
	}
	return l, err
}

// ID returns the number that identifies a tracepoint for perf_event_open.
func (t *FS) ID(system, name string) (uint64, error) {
	path := filepath.Join(t.Root, "events", system, name, "id")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) { // Linux 6.18 shows the directories to all users
		return 0, &NotFoundError{fmt.Errorf("%s: %w", path, fs.ErrPermission)}
	}
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("id of tracepoint %s:%s: %w", system, name, err)
	}
	return id, nil
}

// Has reports whether a tracepoint exists.
func (t *FS) Has(system, name string) bool {
	_, err := os.Stat(filepath.Join(t.Root, "events", system, name))
	return err == nil
}

// IsProbe reports whether a tracepoint ("system/name") is a kprobe or a uprobe, whose BPF
// programs get registers: their formats begin with the probe's address.
func (t *FS) IsProbe(name string) bool {
	b, err := t.Read("events/" + name + "/format")
	return err == nil && bytes.Contains(b, []byte(" __probe_"))
}

// Near returns tracepoints, as system:name, that have the name in any system; if there are
// none, those with a similar system and name. system is "" if unknown.
func (t *FS) Near(system, name string) []string {
	folders, err := t.Names()
	if err != nil {
		return nil
	}
	var same, words []string
	events := map[string]string{} // by the word that is compared with the name
	for _, folder := range folders {
		s, n, _ := strings.Cut(folder, "/")
		event := s + ":" + n
		if n == name {
			same = append(same, event)
		}
		word := event
		if system == "" {
			word = n
		}
		words, events[word] = append(words, word), event
	}
	if len(same) > 0 {
		slices.Sort(same)
		return same
	}
	if system != "" {
		name = system + ":" + name
	}
	l := suggest.Names(name, words)
	for i, word := range l {
		l[i] = events[word]
	}
	return l
}

// Described is a tracepoint whose format is written to a file.
type Described struct {
	Dir          string // system/name in tracefs
	System, Name string // its name in the file
	Text         []byte // the format, if tracefs has none; Dir is then any unique name
	// Edit, if not nil, changes the format of tracefs.
	Edit func(text []byte) []byte
}

// Data reads the data that a reader needs to print the tracepoints' raw data. It returns nil
// if there are none.
func (t *FS) Data(tracepoints []Described) (*format.TracingData, error) {
	d := &format.TracingData{LongSize: strconv.IntSize / 8, PageSize: uint32(os.Getpagesize())}
	have := map[string]bool{}
	for _, tp := range tracepoints {
		if have[tp.Dir] {
			continue
		}
		have[tp.Dir] = true
		text, err := t.text(tp)
		if err != nil {
			return nil, fmt.Errorf("format of tracepoint %s:%s: %w", tp.System, tp.Name, err)
		}
		if tp.System == "ftrace" {
			d.Ftrace = append(d.Ftrace, text)
		} else {
			d.Events = append(d.Events, format.TracepointText{System: tp.System, Text: text})
		}
	}
	if len(have) == 0 {
		return nil, nil
	}
	for _, f := range []struct {
		name string
		into *[]byte
	}{
		{"events/header_page", &d.HeaderPage},
		{"events/header_event", &d.HeaderEvent},
		{"printk_formats", &d.Printk},
		{"saved_cmdlines", &d.Cmdlines},
	} {
		b, err := t.Read(f.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*f.into = b
	}
	return d, nil
}

// text returns the format of a tracepoint, under its name in the file.
func (t *FS) text(tp Described) ([]byte, error) {
	if tp.Text != nil {
		return tp.Text, t.find() // Data reads other files of tracefs
	}
	text, err := t.Read("events/" + tp.Dir + "/format")
	if path.Base(tp.Dir) != tp.Name {
		_, rest, _ := bytes.Cut(text, []byte("\n"))
		text = append([]byte("name: "+tp.Name+"\n"), rest...)
	}
	if tp.Edit != nil {
		text = tp.Edit(text)
	}
	return text, err
}

// Read reads a file of tracefs, in few reads: a kernel file has no size.
func (t *FS) Read(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(t.Root, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(1 << 13)
	_, err = io.Copy(&b, f)
	return b.Bytes(), err
}
