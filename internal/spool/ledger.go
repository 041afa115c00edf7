package spool

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// ledger is a file with a name per line. It survives the end of the machine while a line is appended.
type ledger struct {
	mu    sync.Mutex
	fd    *os.File
	names map[string]bool
}

// maxNames is the maximum number of names in a ledger when it is opened. Of more it forgets the older half.
const maxNames = 100_000

func (l *ledger) open(path string) (err error) {
	l.names = map[string]bool{}
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1] // the rest was not written completely
	lines := strings.SplitAfter(string(b), "\n")
	lines = lines[:len(lines)-1]
	if len(lines) > maxNames {
		lines = lines[len(lines)/2:]
		if err := replace(path, strings.Join(lines, "")); err != nil {
			return err
		}
	} else if err := truncate(path, int64(len(b))); err != nil {
		return err
	}
	for _, name := range lines {
		l.names[strings.TrimSuffix(name, "\n")] = true
	}
	l.fd, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	return err
}

// replace replaces the contents of a file.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// truncate shortens a file if it exists.
func truncate(path string, size int64) error {
	if err := os.Truncate(path, size); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (l *ledger) close() error {
	if l.fd == nil {
		return nil
	}
	return l.fd.Close()
}

func (l *ledger) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// add adds a name, on disk.
func (l *ledger) add(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[name] {
		return nil
	}
	if _, err := l.fd.WriteString(name + "\n"); err != nil {
		return err
	}
	if err := l.fd.Sync(); err != nil {
		return err
	}
	l.names[name] = true
	return nil
}
