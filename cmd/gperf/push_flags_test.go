package main

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gperf/report/push"
)

func TestHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("Authorization: Bearer a:b\n\nX-Scope: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := headers([]string{"x-a:  b ", "@" + file, "X-Scope: 2"})
	want := http.Header{"X-A": {"b"}, "Authorization": {"Bearer a:b"}, "X-Scope": {"1", "2"}}
	if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"secret", ": x", "a b: x"} {
		if _, err := headers([]string{wrong}); err == nil || strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: error %v, which must not have the header", wrong, err)
		}
	}
}

// Operands of --follow are directories, patterns, recordings that are directories, and files.
func TestCandidates(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"[x]/1.data", "[x]/2.data", "[x]/other", "rec/data", "rec/data.0"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for operand, want := range map[string]string{
		"[x]":        "[x]/1.data [x]/2.data [x]/other",
		"?x]/*.data": "[x]/1.data [x]/2.data",
		"rec":        "rec",
		"[x]/1.data": "[x]/1.data",
		"missing":    "",
	} {
		paths, err := candidates(filepath.Join(dir, operand))
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range paths {
			paths[i], _ = filepath.Rel(dir, path)
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%s: %q, want %q", operand, got, want)
		}
	}
	if _, err := candidates(filepath.Join(dir, "[")); err == nil || !strings.Contains(err.Error(), "--follow ") {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestHint(t *testing.T) {
	for _, row := range []struct {
		server string
		status int
		want   string
	}{
		{"clickhouse+http://h", http.StatusNotFound, "--schema clickhouse"},
		{"otlp+grpc://h", http.StatusNotFound, "service.profilesSupport"},
		{"https://h", http.StatusForbidden, "-H"},
		{"https://h", http.StatusNotFound, ""},
	} {
		hint := (&unsentError{&push.RefusedError{Server: row.server, Status: row.status}}).Hint()
		if (hint == "") != (row.want == "") || !strings.Contains(hint, row.want) {
			t.Errorf("%s %d: %q", row.server, row.status, hint)
		}
	}
}
