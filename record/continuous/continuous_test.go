package continuous

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
		bad  bool
	}{
		{"", nil, false},
		{"-F 19  -g\t--max-total=4G\r", []string{"-F", "19", "-g", "--max-total=4G"}, false},
		{"# a comment", nil, false},
		{"-F 19 # a comment", []string{"-F", "19"}, false},
		{"-e skb:kfree_skb#", []string{"-e", "skb:kfree_skb#"}, false},
		{`-e x --filter 'pid > 1 # "all"' ""`, []string{"-e", "x", "--filter", `pid > 1 # "all"`, ""}, false},
		{`--filter "comm != 'a'"b`, []string{"--filter", "comm != 'a'b"}, false},
		{`--filter 'pid`, nil, true},
	} {
		got, err := splitWords(c.line)
		if !slices.Equal(got, c.want) || (err != nil) != c.bad {
			t.Errorf("%q: %q, %v", c.line, got, err)
		}
	}
}

// TestConfig: a file with errors is an error at the start, and later the previous flags stay.
func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "continuous.conf")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var parsed, notices []string
	c := config{opts: &Options{Config: path, Notice: func(err error) { notices = append(notices, err.Error()) },
		Parse: func(flags []string) (*Settings, error) {
			if slices.Contains(flags, "--wrong") {
				return nil, errors.New("unknown flag")
			}
			parsed = flags
			return &Settings{}, nil
		}}}
	if _, err := c.load(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	write("--wrong")
	if _, err := c.load(); err == nil {
		t.Error("wrong flags at the start are no error")
	}
	write("-F 29\n\n# more\n--max-cpu 2%\n")
	if _, err := c.load(); err != nil || !slices.Equal(parsed, []string{"-F", "29", "--max-cpu", "2%"}) {
		t.Errorf("%q, %v", parsed, err)
	}
	for _, wrong := range []string{"--wrong", "'"} {
		write(wrong)
		parsed = nil
		if _, err := c.load(); err != nil || len(parsed) != 4 {
			t.Errorf("%s: %q, %v", wrong, parsed, err)
		}
	}
	if len(notices) != 2 {
		t.Errorf("notices: %q", notices)
	}
}

func TestDefaultConfig(t *testing.T) {
	if _, err := os.Stat(DefaultConfig); err == nil {
		t.Skip(DefaultConfig + " exists")
	}
	if flags, err := readFlags(DefaultConfig); err != nil || flags == nil || len(flags) > 0 {
		t.Errorf("%q, %v", flags, err)
	}
}

// TestStore: the oldest files make room, files of others stay, and a second recorder is refused.
func TestStore(t *testing.T) {
	const size = 8 << 10 // a multiple of the file system's block
	dir := filepath.Join(t.TempDir(), "new", "dir")
	s, err := openStore(dir, 8*size)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir, size); !errors.As(err, new(*LockedError)) {
		t.Errorf("a second recorder: %v", err)
	}
	name := regexp.MustCompile(`^.+-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(-\d+)?\.data$`)
	var made []string
	for range 20 {
		path := s.next()
		_, err := os.Stat(path)
		if filepath.Dir(path) != dir || !name.MatchString(filepath.Base(path)) || !os.IsNotExist(err) {
			t.Fatalf("%s: %v", path, err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		made = append(made, path)
		s.add(path)
		if s.total > 8*size {
			t.Fatalf("%d bytes", s.total)
		}
	}
	s.close()
	other := filepath.Join(dir, "perf.data")
	foreign := filepath.Join(dir, "other-2020-01-01T00:00:00Z.data") // of another host, the oldest
	for _, path := range []string{other, foreign} {
		if err := os.WriteFile(path, make([]byte, 8*size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(foreign, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	again, err := openStore(dir, 8*size)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	again.next()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if slices.Contains(names, filepath.Base(foreign)) || !slices.Contains(names, "perf.data") ||
		!slices.Contains(names, filepath.Base(made[len(made)-1])) || len(names) < 5 {
		t.Errorf("left: %q", names)
	}
}
