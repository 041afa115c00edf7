package annotate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// As root, a program of another user shows no file that this user cannot read, unless root asks for it.
func TestHostileSource(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others cannot read more than they may show")
	}
	secret := filepath.Join(t.TempDir(), "secret.c")
	if err := os.WriteFile(secret, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, other := uint32(0), uint32(65534)
	for _, c := range []struct {
		sources Sources
		owner   *uint32
		shown   bool
	}{
		{Sources{}, nil, false},
		{Sources{}, &other, false},
		{Sources{}, &root, true},
		{Sources{Prefix: "/"}, &other, true},
		{Sources{All: true}, nil, true},
	} {
		lines, err := c.sources.Lines(secret, c.owner)
		if hidden := (*HiddenError)(nil); c.shown != (len(lines) == 2) || c.shown == errors.As(err, &hidden) {
			t.Errorf("%+v, owner %v: %q, %v", c.sources, c.owner, lines, err)
		}
	}
}
