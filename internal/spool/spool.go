// Package spool keeps entries on disk, in the order in which they were added, until they are sent, and remembers
// which were. It survives a crash of the process or the machine at any moment.
//
// Entries come in groups, such as the batches of one recording. A group appears as a whole or not at all, so that a
// caller who was killed adds it again without doubling anything:
//
//	lock                      held by the process that uses the spool
//	queue/SEQ-GROUP/ENTRY     to be sent, in this order
//	new-GROUP/ENTRY           a group that is being written; removed by the next Open
//	rejected/GROUP-ENTRY      an entry that the receiver rejected, with the reason in GROUP-ENTRY.txt
//	done                      one line for each group, and for each entry that is sent only once
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrInUse: another process uses the spool.
var ErrInUse = errors.New("in use by another process")

// TooLargeError means that a group does not fit into the spool, even an empty one.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("needs more than the %d MB of the spool", e.Limit/1_000_000)
}

// Spool is an open spool. Several goroutines may call the methods.
type Spool struct {
	dir   string
	limit int64 // of the bytes on disk
	lock  *os.File
	done  ledger

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when groups change
	groups   []*group      // to be sent, in order
	names    map[string]int
	rejected []Entry // oldest first
	bytes    int64   // of all files
	seq      uint64  // of the last group
}

// group is a directory below queue.
type group struct {
	id, dir string
	entries []Entry
}

// Entry is one file of a group.
type Entry struct {
	Group, Name string
	Path        string
	Size        int64
}

const (
	queueDir    = "queue"
	rejectedDir = "rejected"
	newPrefix   = "new-"
	reason      = ".txt"
)

// Open opens the spool in a directory, which it creates. limit is the maximum size in bytes. The error is ErrInUse
// while another process uses the spool.
func Open(dir string, limit int64) (*Spool, error) {
	s := &Spool{dir: dir, limit: limit, changed: make(chan struct{}), names: map[string]int{}}
	if err := s.open(); err != nil {
		s.Close()
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	return s, nil
}

func (s *Spool) open() (err error) {
	for _, dir := range []string{queueDir, rejectedDir} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			return err
		}
	}
	if s.lock, err = os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	unfinished, _ := filepath.Glob(filepath.Join(s.dir, newPrefix+"*"))
	for _, dir := range unfinished {
		os.RemoveAll(dir)
	}
	if err := s.done.open(filepath.Join(s.dir, "done")); err != nil {
		return err
	}
	if err := s.readRejected(); err != nil {
		return err
	}
	return s.readQueue()
}

// takeLock takes the lock. A process that was killed may hold it for a moment.
func (s *Spool) takeLock() error {
	for end := time.Now().Add(time.Second); ; time.Sleep(20 * time.Millisecond) {
		switch err := tryLock(s.lock); {
		case err == nil:
			return nil
		case err != ErrInUse:
			return fmt.Errorf("lock it: %w", err)
		case time.Now().After(end):
			return ErrInUse
		}
	}
}

// Close ends the use of the spool by this process.
func (s *Spool) Close() error {
	err := s.done.close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close()) // unlocks it
	}
	return err
}

func (s *Spool) readQueue() error {
	dirs, err := os.ReadDir(filepath.Join(s.dir, queueDir)) // sorted by name, hence by number
	if err != nil {
		return err
	}
	for _, d := range dirs {
		seq, id, ok := strings.Cut(d.Name(), "-")
		n, err := strconv.ParseUint(seq, 10, 64)
		if !ok || err != nil {
			continue // not the spool's
		}
		s.seq = n
		g := &group{id: id, dir: filepath.Join(s.dir, queueDir, d.Name())}
		if g.entries, err = readEntries(g.dir, id); err != nil {
			return err
		}
		if len(g.entries) == 0 {
			if err := s.finish(g); err != nil {
				return err
			}
			continue
		}
		s.append(g)
	}
	return nil
}

func readEntries(dir, id string) (l []Entry, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		var st fs.FileInfo
		if st, err = f.Info(); err != nil {
			return nil, err
		}
		l = append(l, Entry{Group: id, Name: f.Name(), Path: filepath.Join(dir, f.Name()), Size: st.Size()})
	}
	return l, err
}

func (s *Spool) readRejected() error {
	all, err := readEntries(filepath.Join(s.dir, rejectedDir), "")
	s.rejected = slices.DeleteFunc(all, func(e Entry) bool { return strings.HasSuffix(e.Name, reason) })
	changed := func(e Entry) int64 {
		st, err := os.Stat(e.Path)
		if err != nil {
			return 0
		}
		return st.ModTime().UnixNano()
	}
	slices.SortFunc(s.rejected, func(a, b Entry) int { return cmp.Compare(changed(a), changed(b)) })
	for _, e := range s.rejected {
		s.bytes += e.Size
	}
	return err
}

// append adds a group to those to be sent.
func (s *Spool) append(g *group) {
	s.groups = append(s.groups, g)
	s.names[g.id]++
	for _, e := range g.entries {
		s.names[e.Name]++
		s.bytes += e.Size
	}
	s.change()
}

// change wakes those who wait for a change.
func (s *Spool) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Known reports whether a group, or an entry that is sent only once, was sent or is to be sent.
func (s *Spool) Known(name string) bool { return s.done.has(name) || s.Queued(name) }

// Queued reports whether a group or entry of this name is to be sent.
func (s *Spool) Queued(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name] > 0
}

// Len returns the number of entries to send, and the bytes in them.
func (s *Spool) Len() (entries int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		entries += len(g.entries)
		for _, e := range g.entries {
			bytes += e.Size
		}
	}
	return entries, bytes
}

// Next returns the entry that is to be sent next, and waits for one until ctx is done.
func (s *Spool) Next(ctx context.Context) (Entry, error) {
	var e Entry
	err := s.await(ctx, func() bool {
		if len(s.groups) == 0 {
			return false
		}
		e = s.groups[0].entries[0]
		return true
	})
	return e, err
}

// Wait returns when nothing is to be sent, or when ctx is done.
func (s *Spool) Wait(ctx context.Context) error {
	return s.await(ctx, func() bool { return len(s.groups) == 0 })
}

// await waits until a condition is true, which may change when groups change.
func (s *Spool) await(ctx context.Context, condition func() bool) error {
	for {
		s.mu.Lock()
		changed, is := s.changed, condition()
		s.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sent removes the entry that Next returned. With once, Known then reports the entry's name, now and in later runs.
// After an error, the caller calls Sent again: the entry is still the next one.
func (s *Spool) Sent(e Entry, once bool) error {
	if once {
		if err := s.done.add(e.Name); err != nil {
			return err
		}
	}
	return s.remove(e, func() error { return os.Remove(e.Path) })
}

// Reject keeps the entry that Next returned apart, with the reason for which it cannot be sent. It is not sent again.
// The oldest ones are removed when the spool is full.
func (s *Spool) Reject(e Entry, why error) error {
	to := filepath.Join(s.dir, rejectedDir, e.Group+"-"+e.Name)
	if err := os.WriteFile(to+reason, []byte(why.Error()+"\n"), 0o600); err != nil {
		return err
	}
	return s.remove(e, func() error {
		if err := os.Rename(e.Path, to); err != nil {
			return err
		}
		s.rejected = append(s.rejected, Entry{Group: e.Group, Name: e.Name, Path: to, Size: e.Size})
		s.bytes += e.Size
		return nil
	})
}

// remove removes the first entry of the first group with a function, and the group if the entry was the last one.
func (s *Spool) remove(e Entry, with func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[0]
	if g.entries[0] != e {
		return fmt.Errorf("spool %s: %s is not the first entry", s.dir, e.Path)
	}
	if err := with(); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is gone if remove failed after this
		return err
	}
	last := len(g.entries) == 1
	err := SyncDir(g.dir)
	if last && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		err = s.finish(g)
	}
	if err != nil {
		return err
	}
	s.bytes -= e.Size
	s.forget(e.Name)
	if g.entries = g.entries[1:]; last {
		s.forget(g.id)
		s.groups = s.groups[1:]
	}
	s.change()
	return nil
}

func (s *Spool) forget(name string) {
	if s.names[name]--; s.names[name] == 0 {
		delete(s.names, name)
	}
}

// finish remembers a group that was sent, and removes the group's directory.
func (s *Spool) finish(g *group) error {
	if err := s.done.add(g.id); err != nil {
		return err
	}
	if err := os.Remove(g.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
