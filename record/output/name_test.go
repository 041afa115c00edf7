package output

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"gperf/format"
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

// TestTimestampOfDirectory checks that the directory of a recording gets the time, and not the
// file in it.
func TestTimestampOfDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "perf.data")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	o := New(Options{Path: filepath.Join(dir, format.DirData), Name: dir, Timestamp: true})
	if err := o.Create([]format.Attr{{Size: format.AttrSize}}, nil); err != nil {
		t.Fatal(err)
	}
	done, err := o.Finish(func(Counts) []format.Section { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if !isRecording(done.Name) || filepath.Dir(done.Name) != filepath.Dir(dir) {
		t.Errorf("%s is not the directory of a recording", done.Name)
	}
}
