package session

import "testing"

// TestChain: calls return to all frames but where a part begins, and there too
// where the kernel's part begins in the function that has the tracepoint.
func TestChain(t *testing.T) {
	parts := make([]*Frame, 5)
	for i := range parts {
		parts[i] = &Frame{ID: i}
	}
	for _, c := range []struct {
		chain Chain
		want  string // of each frame: c for a caller, - for none
	}{
		{Chain{}, ""},
		{Chain{Kernel: parts[:2], User: parts[2:]}, "-c-cc"},
		{Chain{Kernel: parts[:2], User: parts[2:], Called: true}, "cc-cc"},
		{Chain{User: parts, Called: true}, "-cccc"},
		{Chain{Kernel: parts[:2], User: parts[2:]}.Cut(3), "-c-"},
		{Chain{Kernel: parts[:2], User: parts[2:]}.Cut(1), "-"},
	} {
		got := ""
		for i := range c.chain.Len() {
			f, caller := c.chain.Frame(i)
			if f.ID != i {
				t.Errorf("%+v: frame %d is %d", c.chain, i, f.ID)
			}
			if caller {
				got += "c"
			} else {
				got += "-"
			}
		}
		if got != c.want {
			t.Errorf("%+v: callers %s, want %s", c.chain, got, c.want)
		}
	}
}
