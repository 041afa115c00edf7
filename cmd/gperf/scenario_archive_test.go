package main

import (
	"archive/zip"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gperf/internal/testutil/programs"
)

// An archive prints the same on a machine without the recorded files.

var stacksDWARF = programs.C("../../record/testdata/stacks.c", "-g", "-O2", "-fomit-frame-pointer", "-pthread")

// views are the commands whose outputs are compared.
var views = [][]string{
	{"script"},
	{"script", "-F", "+brstacksym"},
	{"script", "--show-unwind"},
	{"script", "--show-mmap-events"},
	{"script", "--header", "-I"},
	{"script", "-D"},
	{"script", "-F", "+srcline,+srcfile", "--full-source-path"},
	{"script", "--format", "folded"},
	{"annotate", "--no-source", "--dsos", "program"}, // sources, and the kernel's code, are not in the archive
	{"report", "--stdio", "--sort", "srcline,sym", "-g", "none"},
	{"report", "--stdio"},
	{"report", "--stdio", "--no-children", "--sort", "comm,dso,sym"},
	{"evlist", "-v"},
	{"buildid-list"},
	{"buildid-list", "--with-hits"},
}

// emptyRoot is a root directory with nothing but gperf in it.
func emptyRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(binary(t, "./cmd/gperf"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "gperf"), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// elsewhere runs gperf on the archive in an empty root.
func elsewhere(t *testing.T, root, archive string, args ...string) result {
	t.Helper()
	b, err := os.ReadFile(archive)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "perf.data"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/gperf", args...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// needArchives skips where nothing can be recorded, or no root be empty.
func needArchives(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip(
			"not root: chroot to a directory with nothing in it needs it (CAP_SYS_CHROOT), and recording kernel " +
				"functions")
	}
	needEvents(t)
}

// archived records in dir, and returns perf.data's archive with the messages.
func archived(t *testing.T, dir string, flags ...string) (archive, said string) {
	t.Helper()
	name := filepath.Join(dir, "perf.data")
	r := runGperf(t, append([]string{"archive", "-i", name}, flags...)...)
	if r.code != exitOK {
		t.Fatalf("gperf archive: exit code %d\n%s", r.code, r.stderr)
	}
	return name + ".zip", r.stderr
}

// here is the output for the recording in dir.
func here(t *testing.T, dir string, args []string) string {
	t.Helper()
	cmd := exec.Command(binary(t, "./cmd/gperf"), args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gperf %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// TestScenarioArchive records programs of C and of Go with the kernel's part of
// their stacks, and compares the recording's output here with the output that its archive
// does in an empty root: all the same, also when the programs are gone.
func TestScenarioArchive(t *testing.T) {
	needArchives(t)
	for _, c := range []struct {
		name  string
		exe   string
		args  []string // of the program
		flags []string
		want  string // in the output
	}{
		{"C", stacksDWARF.Path(t), []string{"recurse", "5"}, nil, "recurse+0x"},
		{"C with copies of the stack", stacksDWARF.Path(t), []string{"recurse", "5"}, []string{"--call-graph", "dwarf,copy"}, "recurse+0x"},
		{"Go", binary(t, dropsProgram), []string{"-n", "30000"}, nil, "main.drop+0x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			exe := filepath.Join(dir, "program")
			copyFile(t, c.exe, exe)
			mustRecord(t, dir, slices.Concat([]string{"-g", "-e", "cpu-clock/freq=499/,page-faults/period=1/"}, c.flags,
				[]string{"--", exe}, c.args)...)
			want := make([]string, len(views))
			for i, v := range views {
				want[i] = here(t, dir, v)
			}
			if !strings.Contains(want[0], c.want) || !strings.Contains(want[0], "entry_SYSCALL_64") &&
				!strings.Contains(want[0], "el0_svc") {
				t.Logf("%s", want[0])
				t.Fatalf("the recording has no %s with frames of the kernel", c.want)
			}
			archive, _ := archived(t, dir)
			if err := os.Remove(exe); err != nil {
				t.Fatal(err)
			}
			root := emptyRoot(t)
			for i, v := range views {
				r := elsewhere(t, root, archive, v...)
				if r.code != exitOK {
					t.Errorf("gperf %s in an empty root: exit code %d\n%s", strings.Join(v, " "), r.code, r.stderr)
				}
				sameText(t, "gperf "+strings.Join(v, " "), r.stdout, want[i])
			}
		})
	}
}

// TestScenarioArchiveMembers: the contents of an archive of a program with debug
// information, with the ways to pack less and more of it; and that perf maps are.
func TestScenarioArchiveMembers(t *testing.T) {
	needArchives(t)
	dir := t.TempDir()
	exe := filepath.Join(dir, "program")
	copyFile(t, stacksDWARF.Path(t), exe)
	// The end of a process is an event of the kernel's.
	mustRecord(t, dir, "-g", "-e", "cpu-clock", "-F", "499", "-e", "sched:sched_process_exit",
		"--", exe, "recurse", "5")
	id := strings.Fields(mustGperf(t, "buildid-list", "-i", exe))[0]
	kernel := strings.Fields(mustGperf(t, "buildid-list", "-k"))[0]
	own := ".debug/.build-id/" + id[:2] + "/" + id[2:] + "/elf"
	sizes := map[string]uint64{}
	for _, flag := range []string{"", "--no-debug", "--whole"} {
		var flags []string
		if flag != "" {
			flags = []string{flag}
		}
		archive, _ := archived(t, dir, flags...)
		z, err := zip.OpenReader(archive)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range z.File {
			if others := regexp.MustCompile(`^(\.debug/|usr/lib/debug/|\[vdso\])`); !others.MatchString(f.Name) ||
				strings.Contains(f.Name, id[2:]) || strings.Contains(f.Name, kernel) {
				names = append(names, f.Name)
			}
			if f.Name == own {
				sizes[flag] = f.CompressedSize64
			}
		}
		z.Close()
		want := []string{"perf.data", ".debug/[kernel.kallsyms]/" + kernel + "/kallsyms", own, ".pieces"}
		if kcore, err := os.Open("/proc/kcore"); err == nil {
			kcore.Close()
			want = slices.Insert(want, 2, ".debug/[kernel.kcore]/"+kernel+"/kcore")
		}
		if flag != "--no-debug" {
			want = slices.Insert(want, len(want)-1, ".debug/.lines/"+id+".srcline")
		}
		if !slices.Equal(names, want) {
			t.Errorf("archive %s has\n%s\nwant\n%s", flag, strings.Join(names, "\n"), strings.Join(want, "\n"))
		}
	}
	if !(sizes["--no-debug"] < sizes[""] && sizes[""] < sizes["--whole"]) {
		t.Errorf("the program takes %d bytes without debug information, %d with it, %d whole", sizes["--no-debug"],
			sizes[""], sizes["--whole"])
	}
}

// copyWithOwnBuildID copies a program, gives the copy another build ID, and returns it.
func copyWithOwnBuildID(t *testing.T, to, from string) string {
	t.Helper()
	its, err := hex.DecodeString(strings.Fields(mustGperf(t, "buildid-list", "-i", from))[0])
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(from)
	if err != nil || !bytes.Contains(program, its) {
		t.Fatalf("no build ID %x in %s: %v", its, from, err)
	}
	own := make([]byte, len(its))
	rand.Read(own)
	if err := os.WriteFile(to, bytes.ReplaceAll(program, its, own), 0o755); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(own)
}

// TestScenarioArchiveSays: gperf archive reports the files that it cannot pack, with the
// reason and the build ID, and packs the others.
func TestScenarioArchiveSays(t *testing.T) {
	needArchives(t)
	dir := t.TempDir()
	exe := filepath.Join(dir, "program")
	id := copyWithOwnBuildID(t, exe, stacksDWARF.Path(t)) // recordings of other tests keep copies of the program
	// The end of a process is an event of the kernel's.
	mustRecord(t, dir, "-N", "-g", "-e", "cpu-clock", "-F", "499", "-e", "sched:sched_process_exit",
		"--", exe, "recurse", "5")
	for _, c := range []struct {
		name, want string
		change     func() error
	}{
		{"changed since", "build id mismatch", func() error { copyFile(t, "/proc/self/exe", exe); return nil }},
		{"no ELF file any more", "not an ELF file", func() error { return os.WriteFile(exe, []byte("#!/bin/sh\n"), 0o755) }},
		{"no file", "not a regular file", func() error { return errors.Join(os.Remove(exe), os.Mkdir(exe, 0o755)) }},
		{"gone", "no such file", func() error { return os.Remove(exe) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			archive, said := archived(t, dir)
			if !strings.Contains(said, "not packed: build ID "+id) || !strings.Contains(said, exe) ||
				!strings.Contains(said, c.want) {
				t.Errorf("%s: gperf archive says\n%swant %s of %s, build ID %s", c.name, said, c.want, exe, id)
			}
			if text := mustGperf(t, "script", "-i", archive); !strings.Contains(text, "[unknown] ("+exe+")") {
				t.Errorf("%s: no frames of the program without names:\n%.2000s", c.name, text)
			}
		})
	}
}

// TestScenarioArchiveBad: incomplete archives are refused, with advice.
func TestScenarioArchiveBad(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "perf.data")
	copyFile(t, "../../testdata/drops.data", data)
	archive, _ := archived(t, dir)
	whole, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	var other bytes.Buffer
	z := zip.NewWriter(&other)
	if f, err := z.Create("readme"); err != nil || errors.Join(func() error {
		_, err := io.WriteString(f, "hello")
		return err
	}(), z.Close()) != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[200] ^= 0x10
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"cut", whole[:len(whole)*2/3], "truncated"},
		{"another zip file", other.Bytes(), "without perf.data"},
		{"damaged", damaged, "damaged archive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(dir, "bad.zip")
			if err := os.WriteFile(name, c.b, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, command := range []string{"script", "report", "evlist", "archive"} {
				r := runGperf(t, command, "-i", name)
				if r.code != exitError || !strings.Contains(r.stderr, name+": ") ||
					!strings.Contains(r.stderr, c.want) {
					t.Errorf("gperf %s of one that is %s: exit code %d\n%s", command, c.name, r.code, r.stderr)
				}
			}
		})
	}
}

// TestScenarioArchiveDiskFull: if the archive cannot be written, gperf reports an error,
// removes the partial archive, and keeps the previous one unchanged.
func TestScenarioArchiveDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: mounting a small file system needs it (CAP_SYS_ADMIN)")
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	before := filepath.Join(dir, "perf.data.zip")
	if err := os.WriteFile(before, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	copyFile(t, binary(t, "./cmd/gperf"), data) // large; the first member
	prependRecording(t, data)
	for _, flags := range [][]string{{"-o", before}, {"-o", "/dev/full"}} {
		r := runGperf(t, append([]string{"archive", "-i", data}, flags...)...)
		if r.code != exitError || !strings.Contains(r.stderr, "no space left on device") {
			t.Errorf("gperf archive %s: exit code %d\n%s", strings.Join(flags, " "), r.code, r.stderr)
		}
	}
	if b, err := os.ReadFile(before); string(b) != "before" {
		t.Errorf("the archive before is %.20q, error %v", b, err)
	}
	if l, err := os.ReadDir(dir); len(l) != 1 {
		t.Errorf("%d files are left, error %v", len(l), err)
	}
	if st, err := os.Stat("/dev/full"); err != nil || st.Mode()&os.ModeDevice == 0 {
		t.Errorf("/dev/full is %v, error %v", st, err)
	}
}

// prependRecording puts a recording before the content of a file.
func prependRecording(t *testing.T, name string) {
	t.Helper()
	rest, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	recording, err := os.ReadFile("../../testdata/drops.data")
	if err == nil {
		err = os.WriteFile(name, append(recording, rest...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestScenarioArchivePerf: perf shows names of a program that is gone from the files that gperf
// archive --perf packed, and from nothing else.
func TestScenarioArchivePerf(t *testing.T) {
	needArchives(t)
	perf := needOracle(t)
	for _, tool := range []string{"tar", "bzip2"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "program")
	copyFile(t, stacksDWARF.Path(t), exe)
	mustRecord(t, dir, "-g", "-e", "cpu-clock", "-F", "499", "--", exe, "recurse", "5")
	data := filepath.Join(dir, "perf.data")
	suffixes := []string{".tar.gz", ".tar"}
	if _, err := exec.LookPath("bzip2"); err == nil {
		suffixes = append(suffixes, ".tar.bz2")
	}
	for _, suffix := range suffixes {
		if r := runGperf(t, "archive", "--perf", "-o", data+suffix, data); r.code != exitOK ||
			!strings.Contains(r.stdout, "$ perf archive --unpack "+data+suffix+"\n") {
			t.Fatalf("gperf archive --perf -o %s: exit code %d\n%s%s", suffix, r.code, r.stdout, r.stderr)
		}
	}
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range suffixes {
		home := t.TempDir()
		cache := filepath.Join(home, ".debug")
		names := func() bool {
			cmd := exec.Command(perf.command[0], append(perf.command[1:], "script", "-i", data)...)
			cmd.Env = append(os.Environ(), "HOME="+home)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(out), "recurse+0x")
		}
		if names() {
			t.Fatal("perf has names of a program that is gone")
		}
		os.RemoveAll(cache)
		if err := os.Mkdir(cache, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("tar", "xf", data+suffix, "-C", cache).CombinedOutput(); err != nil {
			t.Fatalf("tar: %v\n%s", err, out)
		}
		unpacked := listTree(t, cache)
		os.RemoveAll(cache)
		t.Setenv("HOME", home)
		if r := runGperf(t, "archive", "--unpack", data+suffix); r.code != exitOK {
			t.Fatalf("gperf archive --unpack %s: exit code %d\n%s", suffix, r.code, r.stderr)
		}
		sameText(t, "what gperf unpacked", listTree(t, cache), unpacked)
		if !names() {
			t.Errorf("%s: perf has no names of the program that was packed", suffix)
		}
	}
}

// listTree lists the files below a directory, with sizes and the targets of links.
func listTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		link, _ := os.Readlink(path)
		fmt.Fprintf(&b, "%s %d %s\n", strings.TrimPrefix(path, dir), st.Size(), link)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
