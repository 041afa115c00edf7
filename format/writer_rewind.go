package format

import (
	"fmt"
	"os"
)

// Rewind cuts the file off behind its first size bytes, which end with a whole
// record: what follows is left of a write that failed. An output that cannot be cut
// (a device) is left as it is.
func (w *Writer) Rewind(size int64) error {
	if w.size == size {
		return nil
	}
	w.size = size
	f, ok := w.out.(*os.File)
	if !ok {
		return nil
	}
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("cutting off an incomplete record: %w", err)
	}
	if _, err := f.Seek(size, 0); err != nil {
		return fmt.Errorf("cutting off an incomplete record: %w", err)
	}
	return nil
}
