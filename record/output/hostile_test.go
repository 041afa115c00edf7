package output

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gperf/format"
	"gperf/internal/untrusted"
)

const otherUser = 65534

// TestHostileOld keeps the file at the output's name, where another user has made links to recordings elsewhere.
func TestHostileOld(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "perf.data")
	if err := MakeDir(elsewhere); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(elsewhere, format.DirData)
	if err := os.WriteFile(data, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "perf.data")
	foreign := func(name, to string) {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(name, otherUser, -1); err != nil {
			t.Skip(err)
		}
	}
	// A link at perf.data.old is replaced, not its target.
	foreign(path+".old", elsewhere)
	if err := os.WriteFile(path, []byte("last"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, path, nil)
	if b, err := os.ReadFile(path + ".old"); string(b) != "last" {
		t.Errorf("perf.data.old has %q, %v", b, err)
	}
	// So it is with a link at perf.data, to a file with contents; one to an empty file, or to none, is refused.
	os.Remove(path)
	foreign(path, data)
	create(t, path, nil)
	if st, err := os.Lstat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("perf.data is %v, %v", st, err)
	}
	for _, to := range []string{elsewhere + "/none", elsewhere + "/empty"} {
		os.Remove(path)
		foreign(path, to)
		create(t, path, untrusted.ErrOwner)
		os.WriteFile(elsewhere+"/empty", nil, 0o600)
	}
	if b, err := os.ReadFile(data); string(b) != "dear" {
		t.Errorf("the recording elsewhere has %q, %v", b, err)
	}
	if _, err := os.Stat(elsewhere + "/none"); err == nil {
		t.Error("a link made a file elsewhere")
	}
}

func create(t *testing.T, path string, want error) {
	t.Helper()
	file, err := createFile(path)
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
	if err == nil {
		file.Close()
	}
}
