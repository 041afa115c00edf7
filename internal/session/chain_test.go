package session

import "testing"

// TestCut: the innermost frames are the kernel's.
func TestCut(t *testing.T) {
	parts := make([]*Frame, 5)
	for i := range parts {
		parts[i] = &Frame{ID: i}
	}
	for n := range 7 {
		c := NewChain(parts[:2], parts[2:]).Cut(n)
		if c.Len() != min(n, 5) {
			t.Errorf("%d frames of at most %d", c.Len(), n)
		}
		for i := range c.Len() {
			if f := c.Frame(i); f.ID != i {
				t.Errorf("cut to %d: frame %d is %d", n, i, f.ID)
			}
		}
	}
}
