package tui

import (
	"io"
	"sync"
)

// Held keeps messages while a view is open: they would destroy its picture.
type Held struct {
	mu   sync.Mutex
	To   io.Writer
	held bool
	text []byte
}

// Write writes p, or keeps it between Hold and Release.
func (w *Held) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		w.text = append(w.text, p...)
		return len(p), nil
	}
	return w.To.Write(p)
}

// Hold begins to keep messages.
func (w *Held) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// Release writes the kept messages.
func (w *Held) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.To.Write(w.text)
	w.held, w.text = false, nil
}
