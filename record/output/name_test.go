package output

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTimestamp checks that files finished in the same hundredth of a second have different
// names.
func TestTimestamp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	seen := map[string]bool{}
	for range 5 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		name, err := timestamp(path)
		if err != nil {
			t.Fatal(err)
		}
		if seen[name] || !regexp.MustCompile(`^perf\.data\.20\d{14}$`).MatchString(filepath.Base(name)) {
			t.Errorf("%s", name)
		}
		seen[name] = true
	}
}
