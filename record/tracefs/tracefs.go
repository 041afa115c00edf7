// Package tracefs answers "what does the kernel's tracefs say of its
// tracepoints?": which there are, their numbers, and the formats of their data.
// Which of them are recorded is for package event; the probes that become
// tracepoints there are package probe's.
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
	"gperf/record/near"
)

// FS is the tree in which the kernel describes its tracepoints. It is
// looked for, and mounted if need be, when the first tracepoint is asked for.
type FS struct {
	Root string // empty: not found yet
}

// NotFoundError says that tracefs can neither be found nor mounted, or not be read.
type NotFoundError struct{ Err error }

func (e *NotFoundError) Error() string { return fmt.Sprintf("no tracefs: %v", e.Err) }
func (e *NotFoundError) Unwrap() error { return e.Err }

// ErrGlob: a glob has a bracket without its other half.
var ErrGlob = errors.New("the glob has a bracket without its other half")

// Tracepoint is one event of tracefs: events/System/Name, and its id.
type Tracepoint struct {
	System, Name string
	ID           uint64
}

// Path returns the path of a file of tracefs, whose name is relative to its root.
func (t *FS) Path(name string) (string, error) {
	err := t.find()
	return filepath.Join(t.Root, name), err
}

var tracefsPlaces = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// find sets Root. A kernel whose tracefs is mounted nowhere gets it mounted at
// its usual place, which needs CAP_SYS_ADMIN.
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
		return &NotFoundError{fmt.Errorf("mounting it at %s: %w", tracefsPlaces[0], err)}
	}
	t.Root = tracefsPlaces[0]
	return nil
}

// Find returns the tracepoints whose system and name match the two globs, in
// the order of the folders.
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
		// The function tracer's own formats are no events to open.
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
				continue // a folder without id is no event
			}
			if err != nil {
				return nil, err
			}
			l = append(l, Tracepoint{s, n, id})
		}
	}
	return l, nil
}

// Names returns the folders of all tracepoints, "system/name", in no order. The
// function tracer's own formats, which are no events, are not among them.
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

// match returns the entries of events/dir that match the glob; a name that is
// none is looked up directly.
func (t *FS) match(dir, glob string) ([]string, error) {
	if !strings.ContainsAny(glob, `*?[\`) {
		// A name is one element of a path, and a folder.
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

// list returns the folders in events/dir in the kernel's order.
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

// ID returns the number by which perf_event_open knows a tracepoint.
func (t *FS) ID(system, name string) (uint64, error) {
	path := filepath.Join(t.Root, "events", system, name, "id")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) { // Linux 6.18 shows everybody the folders
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

// Has tells whether there is such a tracepoint.
func (t *FS) Has(system, name string) bool {
	_, err := os.Stat(filepath.Join(t.Root, "events", system, name))
	return err == nil
}

// IsProbe tells whether a tracepoint ("system/name") is a kprobe or a uprobe,
// whose BPF programs get registers: its fields begin with where it is.
func (t *FS) IsProbe(name string) bool {
	b, err := t.Read("events/" + name + "/format")
	return err == nil && bytes.Contains(b, []byte(" __probe_"))
}

// Near returns tracepoints, as system:name, that have the name in any system; if there are
// none, those with almost that system and name. system is "" if it is not known.
func (t *FS) Near(system, name string) []string {
	folders, err := t.Names()
	if err != nil {
		return nil
	}
	var same, words []string
	events := map[string]string{} // by the word that is compared
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
	l := near.Names(name, words)
	for i, word := range l {
		l[i] = events[word]
	}
	return l
}

// Described is a tracepoint whose format goes into a file.
type Described struct {
	Dir          string // system/name in tracefs
	System, Name string // as the file is to call it
	Text         []byte // the format, where tracefs has none: Dir is then any name of its own
	// Edit, unless nil, changes the format that tracefs has.
	Edit func(text []byte) []byte
}

// Data reads what a reader needs in order to print the tracepoints' raw data.
// It returns nil when there are none.
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

// text is the format of a tracepoint, under the name that the file has for it.
func (t *FS) text(tp Described) ([]byte, error) {
	if tp.Text != nil {
		return tp.Text, t.find() // which is to tell the rest
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

// Read reads a file of tracefs, in few reads: a kernel file tells no size.
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
