package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedFiles: defects of a file are reported as damage or truncation.
// The exit code is 1 if it is truncated, as of perf, and if nothing was usable.
func TestDamagedFiles(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(root, "testdata", "two.data"))
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := os.ReadFile(filepath.Join(root, "testdata", "drops.perf.pipe.data"))
	if err != nil {
		t.Fatal(err)
	}
	const data = 11296 // where records begin
	overwritten := func(from, to int, with byte) []byte {
		return append(append(bytes.Clone(whole[:from]), bytes.Repeat([]byte{with}, to-from)...), whole[to:]...)
	}
	unfinished := bytes.Clone(whole[:data+22968])
	clear(unfinished[48:56])  // data.size
	clear(unfinished[72:104]) // features
	for _, test := range []struct {
		name   string
		file   []byte
		code   int
		output bool
		want   string // on stderr
	}{
		{"whole", whole, exitOK, true, ""},
		{"cut within the magic", whole[:8], exitError, false, ": truncated: at offset 0x0"},
		{"cut within the attrs", whole[:256], exitError, false, ": truncated: at offset 0x68: attrs"},
		{"cut within a record", whole[:len(whole)*3/4], exitError, true, ": truncated: the file has 14606 of 22968 bytes of records\n"},
		{"cut within the last feature section", whole[:len(whole)-1], exitError, true, ": truncated: 1 of 16 feature sections cannot be read"},
		{"a record of no size", overwritten(data+8000, data+8100, 0), exitOK, true, ": damaged: 1 part was skipped: at offset 0x4b80"},
		{"records of no size", overwritten(data, data+22968, 0), exitError, false, ": damaged: 1 part was skipped: at offset 0x2c20"},
		{"a killed recorder", unfinished, exitOK, true, "not finished properly"},
		{"a killed recorder, cut within a record", unfinished[:data+20000], exitOK, true, "not finished properly"},
		{"a pipe cut within the tracepoints' formats", pipe[:10764], exitError, false, ": damaged: tracing data"},
		{"a pipe cut within a record", pipe[:14000], exitOK, true, ": damaged: 1 part was skipped"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "perf.data")
			if err := os.WriteFile(path, test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"script", "report --sort comm", "report --format folded",
				"top --stdio --sort comm"} {
				var stdout, stderr bytes.Buffer
				code := run(append(strings.Fields(command), "-i", path), &stdout, &stderr)
				if code != test.code || !strings.Contains(stderr.String(), test.want) {
					t.Errorf("gperf %s: exit code %d, want %d and %q:\n%s", command, code, test.code, test.want,
						&stderr)
				}
				if strings.Contains(stderr.String(), "never happened") {
					t.Errorf("gperf %s knows what the missing part has:\n%s", command, &stderr)
				}
				if samples := strings.Contains(stdout.String(), "drops"); samples != test.output {
					t.Errorf("gperf %s prints samples: %v\n%s", command, samples, &stdout)
				}
			}
		})
	}
}

// truncating truncates a file after the first bytes were written to it.
type truncating struct {
	path string
	size int64
	n    int
}

func (w *truncating) Write(b []byte) (int, error) {
	if w.n == 0 {
		if err := os.Truncate(w.path, w.size); err != nil {
			return 0, err
		}
	}
	w.n += len(b)
	return len(b), nil
}

// TestTruncatedWhileRead: if a recording is truncated while it is read, gperf prints
// the read part, and says so.
func TestTruncatedWhileRead(t *testing.T) {
	const samples = 200_000
	r := &recorder{attrs: 1}
	for i := range uint64(samples) {
		r.sample(1, i)
	}
	path := r.save(t)
	out := &truncating{path: path, size: 200_000}
	var stderr bytes.Buffer
	code := run([]string{"script", "-i", path}, out, &stderr)
	if code != exitError || !strings.Contains(stderr.String(), "file truncated while reading") {
		t.Errorf("exit code %d, want %d, and that the file was truncated:\n%s", code, exitError, &stderr)
	}
	if out.n == 0 {
		t.Error("nothing was printed")
	}
}
