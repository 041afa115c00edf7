package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Group is a group that is being written. One goroutine uses it.
type Group struct {
	spool   *Spool
	id, dir string
	entries []Entry
	bytes   int64
}

// Begin begins a group. The ID must consist of letters and digits. Commit or Discard ends it.
func (s *Spool) Begin(id string) (*Group, error) {
	g := &Group{spool: s, id: id, dir: filepath.Join(s.dir, newPrefix+id)}
	if err := os.MkdirAll(g.dir, 0o700); err != nil {
		return nil, err
	}
	return g, nil
}

// Create returns the file of a new entry. Entries are sent in the order of names, which must differ. While the
// spool is full, Write waits for room until ctx is done.
func (g *Group) Create(ctx context.Context, name string) (*File, error) {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{ctx: ctx, group: g, fd: f, entry: Entry{Group: g.id, Name: name}}, nil
}

// Commit adds the group to those to be sent. Without entries, it remembers the group as sent.
func (g *Group) Commit() error {
	s := g.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(g.entries) == 0 {
		return s.finish(&group{id: g.id, dir: g.dir})
	}
	if err := SyncDir(g.dir); err != nil {
		return err
	}
	parent := filepath.Join(s.dir, queueDir)
	s.seq++
	dir := filepath.Join(parent, fmt.Sprintf("%012d-%s", s.seq, g.id))
	if err := os.Rename(g.dir, dir); err != nil {
		return err
	}
	if err := SyncDir(parent); err != nil {
		return err
	}
	s.bytes -= g.bytes // append adds them
	for i := range g.entries {
		g.entries[i].Path = filepath.Join(dir, g.entries[i].Name)
	}
	s.append(&group{id: g.id, dir: dir, entries: g.entries})
	return nil
}

// Discard removes the group's directory, with the files written so far.
func (g *Group) Discard() error {
	g.spool.mu.Lock()
	g.spool.bytes -= g.bytes
	g.spool.change()
	g.spool.mu.Unlock()
	return os.RemoveAll(g.dir)
}

// File is the file of an entry.
type File struct {
	ctx   context.Context
	group *Group
	fd    *os.File
	entry Entry
}

// Write implements io.Writer. The error is a *TooLargeError if the group alone is larger than the spool's limit.
func (f *File) Write(b []byte) (int, error) {
	if err := f.group.reserve(f.ctx, int64(len(b))); err != nil {
		return 0, err
	}
	n, err := f.fd.Write(b)
	f.entry.Size += int64(n)
	return n, err
}

// Close ends the entry, and makes it survive the end of the machine.
func (f *File) Close() error {
	if err := errors.Join(f.fd.Sync(), f.fd.Close()); err != nil {
		return err
	}
	f.group.entries = append(f.group.entries, f.entry)
	return nil
}

// reserve waits until n more bytes fit into the spool.
func (g *Group) reserve(ctx context.Context, n int64) error {
	s := g.spool
	for {
		s.mu.Lock()
		for s.bytes+n > s.limit && len(s.rejected) > 0 {
			s.dropRejected()
		}
		if s.bytes+n <= s.limit {
			s.bytes += n
			g.bytes += n
			s.mu.Unlock()
			return nil
		}
		changed, alone := s.changed, len(s.groups) == 0
		s.mu.Unlock()
		if alone {
			return &TooLargeError{s.limit}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the spool is full: %w", ctx.Err())
		}
	}
}

// dropRejected removes the oldest entry that was rejected.
func (s *Spool) dropRejected() {
	e := s.rejected[0]
	os.Remove(e.Path)
	os.Remove(e.Path + reason)
	s.rejected, s.bytes = s.rejected[1:], s.bytes-e.Size
}
