package unwind

import (
	"bytes"
	"errors"
	"testing"

	"gperf/internal/dso"
	"gperf/internal/testutil/inputs"
)

// TestHostileBombs reads call frame information that is much larger without compression.
func TestHostileBombs(t *testing.T) {
	for name, b := range inputs.BombFiles("debug_frame") {
		im, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "bomb")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sections(im); !errors.Is(err, dso.ErrUnpacked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
