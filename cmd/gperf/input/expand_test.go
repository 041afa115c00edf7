package input

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestExpand: words name these recordings, in this order.
func TestExpand(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	recording := append([]byte("PERFILE2"), make([]byte, 8)...)
	for name, text := range map[string]string{
		"all/b/perf.data":                string(recording),
		"all/a.data":                     string(recording),
		"all/a.txt":                      "text",
		"all/c.zip":                      "PK\x03\x04 damaged",
		"all/threads.dir/data":           string(recording),
		"all/threads.dir/data.0":         string(recording),
		"all/.debug/x.data":              string(recording),
		"all/buildid/1234/executable":    string(recording),
		"odd/data":                       "damaged",
		"empty/a.txt":                    "text",
		"pattern[1].data":                string(recording),
		"big-endian":                     "2ELIFREP" + string(recording[8:]),
		"other/one.data":                 string(recording),
		"other/sub/two.data":             string(recording),
		"other/sub/not a recording.data": "text",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		words, want []string
		err         error
	}{
		{words: []string{"", "-", "none.data", "http://h/*.zip"}, want: []string{"", "-", "none.data", "http://h/*.zip"}},
		{words: []string{"all"}, want: []string{"all/a.data", "all/b/perf.data", "all/c.zip", "all/threads.dir"}},
		{words: []string{"all/threads.dir"}, want: []string{"all/threads.dir"}},
		{words: []string{"all/*.data", "big-endian"}, want: []string{"all/a.data", "big-endian"}},
		{words: []string{"o*"}, want: []string{"odd", "other/one.data", "other/sub/two.data"}},
		{words: []string{"pattern[1].data"}, want: []string{"pattern[1].data"}},
		{words: []string{"odd"}, want: []string{"odd"}},
		{words: []string{"empty"}, err: errNone},
		{words: []string{"none*"}, err: errNone},
		{words: []string{"[a"}, err: filepath.ErrBadPattern},
	} {
		got, err := Expand(test.words)
		if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("Expand(%q) = %q, %v; want %q, %v", test.words, got, err, test.want, test.err)
		}
	}
}
