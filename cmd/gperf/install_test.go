package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstall installs gperf by another name below a DESTDIR, uses the installed files, and removes them.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is missing (Debian's make)")
	}
	const name = "gperf-perf"
	dest, program := t.TempDir(), filepath.Join(t.TempDir(), "gperf")
	makeIn := func(target string) {
		t.Helper()
		cmd := exec.Command("make", target, "DESTDIR="+dest, "PREFIX=/usr", "NAME="+name, "PROGRAM="+program)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}

	makeIn("install")
	usr := filepath.Join(dest, "usr")
	if out, err := exec.Command(filepath.Join(usr, "bin", name), "version").Output(); err != nil ||
		!strings.HasPrefix(string(out), "gperf version ") {
		t.Errorf("%s version: %v, %q", name, err, out)
	}
	checkManPages(t, usr, name)
	checkCompletion(t, usr, name)
	for _, path := range filesBelow(t, dest) {
		if base := strings.TrimPrefix(filepath.Base(path), "_"); !strings.HasPrefix(base, name) {
			t.Errorf("install creates %s, which has another program's name", path)
		}
	}

	makeIn("uninstall")
	if files := filesBelow(t, dest); len(files) > 0 {
		t.Errorf("uninstall leaves %s", files)
	}
}

// checkManPages compares the installed man pages with docs/man.
func checkManPages(t *testing.T, usr, name string) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/man/*.1"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no man pages: ", err)
	}
	oldName := regexp.MustCompile(`(?m)(^|\s)gperf( [a-z]|\\-|$)`)
	for _, page := range pages {
		installed := filepath.Join(usr, "share/man/man1", name+strings.TrimPrefix(filepath.Base(page), "gperf"))
		text, err := os.ReadFile(installed)
		if err != nil {
			t.Error(err)
		} else if old := oldName.Find(text); old != nil {
			t.Errorf("%s calls the program %q", installed, old)
		}
	}
}

// checkCompletion loads the completion for bash, and looks for the files of the other shells.
func checkCompletion(t *testing.T, usr, name string) {
	for _, file := range []string{"zsh/site-functions/_" + name, "fish/vendor_completions.d/" + name + ".fish"} {
		if _, err := os.Stat(filepath.Join(usr, "share", file)); err != nil {
			t.Error(err)
		}
	}
	script := filepath.Join(usr, "share/bash-completion/completions", name)
	if out, err := exec.Command("bash", "-c", `source "$0" && complete -p "$1"`, script,
		name).CombinedOutput(); err != nil {
		t.Errorf("%s: %v, %s", script, err, out)
	}
}

func filesBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
