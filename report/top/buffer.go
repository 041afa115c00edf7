package top

import (
	"io"
	"sync"
)

// Buffer passes bytes from a recorder to a reader. It grows while the reader is busy, such as
// with reading symbols, so that the recorder goes on draining its rings.
type Buffer struct {
	mu      sync.Mutex
	changed sync.Cond
	all     []byte
	read    int   // bytes of all that are read
	err     error // of Read once all is read
}

// maxBuffer is the size from which Write waits for the reader.
const maxBuffer = 64 << 20

// NewBuffer returns an empty Buffer.
func NewBuffer() *Buffer {
	b := new(Buffer)
	b.changed.L = &b.mu
	return b
}

// Write appends p. It fails once the Buffer is closed.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.all)-b.read > maxBuffer && b.err == nil {
		b.changed.Wait()
	}
	if b.err != nil {
		return 0, io.ErrClosedPipe
	}
	if len(b.all)+len(p) > cap(b.all) && b.read > len(b.all)/2 {
		b.all, b.read = b.all[:copy(b.all, b.all[b.read:])], 0
	}
	b.all = append(b.all, p...)
	b.changed.Broadcast()
	return len(p), nil
}

// Read waits for bytes, and reads them.
func (b *Buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.all) == b.read && b.err == nil {
		b.changed.Wait()
	}
	if len(b.all) == b.read {
		return 0, b.err
	}
	n := copy(p, b.all[b.read:])
	if b.read += n; b.read == len(b.all) {
		b.all, b.read = b.all[:0], 0
	}
	b.changed.Broadcast()
	return n, nil
}

// Close makes Read return err, or io.EOF if it is nil, after the bytes in the Buffer.
func (b *Buffer) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		if b.err = err; err == nil {
			b.err = io.EOF
		}
	}
	b.changed.Broadcast()
}
