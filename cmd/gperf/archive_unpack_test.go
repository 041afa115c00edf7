package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchivePerfAll: --all packs the recording next to perf's cache; unpacking restores it
// unchanged, and replaces another recording only after a yes.
func TestArchivePerfAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.tar")
	home := t.TempDir()
	t.Setenv("HOME", home)
	r := &recorder{attrs: 1}
	r.mmap(1, 0x10000000, 0x1000, functionsDebug.Path(t))
	r.chain(1, 1, 0x10000010)
	data := r.save(t)
	gperf(t, "archive", "--perf", "--all", "-i", data, "-o", file)
	want, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		there, answer string
		code          int
		replaced      bool
	}{
		{"", "", exitOK, true},
		{"other", "", exitError, false},
		{"other", "maybe\nno\n", exitError, false},
		{"other", "yes\n", exitOK, true},
	} {
		t.Run(c.there, func(t *testing.T) {
			if c.there != "" {
				if err := os.WriteFile(filepath.Base(data), []byte(c.there), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			code := withStdin(t, c.answer, func() int {
				return run([]string{"archive", "--unpack", file}, &stdout, &stderr)
			})
			got, err := os.ReadFile(filepath.Base(data))
			if code != c.code || err != nil || (string(got) == string(want)) != c.replaced {
				t.Errorf("%q answered: exit code %d, want %d, replaced %v, want %v\n%s%s", c.answer, code, c.code,
					string(got) == string(want), c.replaced, &stdout, &stderr)
			}
		})
	}
	flat := t.TempDir()
	t.Chdir(t.TempDir())
	gperf(t, "archive", "--unpack", file, "--symfs", flat+",flat")
	for _, dir := range []string{home, flat} {
		if _, err := os.Stat(filepath.Join(dir, ".debug", ".build-id")); err != nil {
			t.Errorf("perf's cache was not unpacked: %v", err)
		}
	}
}

// withStdin calls do with text to be read from stdin.
func withStdin(t *testing.T, text string, do func() int) int {
	t.Helper()
	undo, err := (&hostileCase{data: []byte(text)}).feed()
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	return do()
}

// TestArchiveExclude: a file whose build ID or name is listed is not packed.
func TestArchiveExclude(t *testing.T) {
	program := functionsDebug.Path(t)
	r := &recorder{attrs: 1}
	r.mmap(1, 0x10000000, 0x1000, program)
	r.chain(1, 1, 0x10000010)
	data := r.save(t)
	for _, c := range []struct {
		name, lines string
		packed      bool
	}{
		{"name", program + "\n", false},
		{"another", "\n/bin/other\n0123456789abcdef0123\n", true},
		{"empty", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			list, packed := filepath.Join(dir, "list"), filepath.Join(dir, "packed")
			if err := os.WriteFile(list, []byte(c.lines), 0o644); err != nil {
				t.Fatal(err)
			}
			gperf(t, "archive", "-i", data, "-o", packed, "--exclude-buildids", list)
			z, err := zip.OpenReader(packed)
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			got := slices.ContainsFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/elf") })
			if got != c.packed {
				t.Errorf("packed: %v, want %v", got, c.packed)
			}
		})
	}
}
