package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gperf/internal/archive"
)

// runUnpack unpacks an archive of perf archive or gperf archive --perf, and prints the
// messages of perf archive --unpack.
func (o *archiveFlags) runUnpack(stdout io.Writer) error {
	name, err := o.packed(stdout)
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	if n, _ := f.ReadAt(head, 0); archive.Is(head[:n]) {
		return fmt.Errorf("%s: gperf reads this archive without unpacking it: gperf report -i %[1]s", name)
	}
	a, err := archive.OpenPerf(f)
	if err == nil {
		err = mayReplace(a.Recording, stdout, os.Stdin)
	}
	if err != nil {
		return err
	}
	tree := o.input.files.tree()
	return a.Unpack(".", tree.Cache().Dir, func(name string) { fmt.Fprintln(stdout, name) })
}

// packed returns the file to unpack: the argument, or the only file below the current
// directory with one of perf archive's names.
func (o *archiveFlags) packed(stdout io.Writer) (string, error) {
	if len(o.input.paths) > 0 {
		return o.input.paths[0], nil
	}
	var found []string
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch isPerf := strings.HasPrefix(path, "perf"); {
		case err != nil || path == ".":
		case d.IsDir() && !isPerf:
			return filepath.SkipDir
		case !d.IsDir() && isPerf && strings.HasSuffix(path, ".tar.bz2"):
			found = append(found, "./"+path)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files found for unpacking:\n%s\nProvide the requested file as an argument",
			len(found), strings.Join(found, "\n"))
	}
	fmt.Fprintf(stdout, "Found target file for unpacking: %s\n", found[0])
	return found[0], nil
}

// mayReplace asks before unpacking replaces existing files of the current directory.
func mayReplace(names []string, stdout io.Writer, stdin io.Reader) error {
	here := slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil
	})
	if len(here) == 0 {
		return nil
	}
	fmt.Fprintf(stdout, "File(s) %s already exist in the current directory.\n", strings.Join(here, " "))
	answers := bufio.NewScanner(stdin)
	for fmt.Fprint(stdout, "Do you wish to overwrite them? "); answers.Scan(); fmt.Fprint(stdout,
		"Please answer yes or no.\n") {
		switch strings.ToLower(cmp.Or(answers.Text(), " ")[:1]) {
		case "y":
			return nil
		case "n":
			return errors.New("nothing was unpacked")
		}
	}
	return errors.New("nothing was unpacked: no answer")
}
