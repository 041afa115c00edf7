package stacks

import (
	"testing"

	"gperf/internal/dso"
)

// Parentheses are part of the names of Ruby's functions; in those of machine code, they are around parameters.
func TestFoldedFrame(t *testing.T) {
	for dsoName, want := range map[string]string{dso.RubyName: "block (2 levels) in run", "/usr/bin/run": "block "} {
		if got := foldedFrame("block (2 levels) in run", dsoName, "", "", false); got != want {
			t.Errorf("of %s: %q, want %q", dsoName, got, want)
		}
	}
}
