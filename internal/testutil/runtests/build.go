package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// binary is the test binary of a package.
type binary struct {
	dir  string // of the package, relative to the module: the directory in which the tests run
	path string
}

// go test -exec runs this program in place of each test binary, with these variables set: it keeps the binary.
const keepEnv, rootEnv = "GPERF_KEEP_TESTS", "GPERF_KEEP_ROOT"

func keeping() (program string, args []string, ok bool) {
	if os.Getenv(keepEnv) == "" || len(os.Args) < 2 {
		return "", nil, false
	}
	return os.Args[1], os.Args[2:], true
}

// keep copies a test binary. The working directory is the package's.
func keep(program string, _ []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(os.Getenv(rootEnv), dir)
	if err != nil {
		return err
	}
	to := fileName(os.Getenv(keepEnv), rel)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	os.Remove(to)
	if os.Link(program, to) == nil {
		return nil
	}
	return copyFile(to, program)
}

// fileName returns the path below bin of a package's test binary. The file name is the one that go test uses,
// because probes in the binary are named after it.
func fileName(bin, dir string) string { return filepath.Join(bin, dir, filepath.Base(dir)+".test") }

func copyFile(to, from string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// build builds the test binaries of the packages, and the programs that they declare.
func (o *options) build() ([]binary, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.programs(), 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dirs, err := packagesWithTests(root, o.packages)
	if err != nil {
		return nil, err
	}
	var l []binary
	for _, dir := range dirs {
		l = append(l, binary{dir, fileName(o.bin, dir)})
	}
	if o.built {
		return l, nil
	}
	args := []string{"test", "-exec", self, "-vet=off", "-count=1", "-trimpath"}
	if o.race {
		args = append(args, "-race")
	}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), keepEnv+"="+o.bin, rootEnv+"="+root)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building tests: %w\n%s", err, out)
	}
	return l, nil
}

// programs returns the directory of the programs that tests run.
func (o *options) programs() string { return filepath.Join(o.bin, "programs") }

// packagesWithTests returns the directories of packages with tests, relative to the module.
func packagesWithTests(root string, patterns []string) ([]string, error) {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"
	cmd := exec.Command("go", slices.Concat([]string{"list", "-f", format}, patterns)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var l []string
	for dir := range bytes.Lines(out) {
		rel, err := filepath.Rel(root, strings.TrimSpace(string(dir)))
		if err != nil {
			return nil, err
		}
		l = append(l, rel)
	}
	return l, nil
}
