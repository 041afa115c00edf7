package main

import (
	"bytes"
	"debug/elf"
	bin "encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gperf/internal/archive"
	"gperf/internal/testutil/programs"
)

// jointInputs are programs whose files gperf reads in different ways.
var jointInputs = []struct {
	name    string
	program *programs.Program
	args    string
	record  string
	line    string // of the source, which gperf shows
}{
	{"inlined", inlinedProgram, "3000000", "-g", "inlined.cc:16"}, // inlined functions
	{"deep", deepProgram, "30000", "--call-graph=dwarf,1024", "deep.c:20"},
	{"zlib", programs.C(ownPrograms+"deep.c", "-O1", "-g", "-gz=zlib", "-fomit-frame-pointer",
		"-fno-asynchronous-unwind-tables", "-Wl,--build-id"), "30000", "--call-graph=dwarf,1024",
		"deep.c:20"}, // .debug_frame
	{"go", programs.Go("./testdata/pgo", "-ldflags=-s -w"), "", "--call-graph=dwarf,1024", "main.go:6"}, // .gopclntab
}

// jointCommands are command lines that read a recording together with the files that it names.
var jointCommands = []string{
	"script -F comm,ip,sym,symoff,dso,srcline",
	"script --format folded --inline",
	"report --stdio",
	"report --stdio --no-children -g none --sort sym,srcline",
	"report --format pprof",
	"report --format firefox",
	"annotate",
	"archive -o -",
}

// The names of the files of a joint input.
const (
	jointProgram = "program"
	jointZip     = "archive.zip"
	jointTar     = "archive.tar"
)

// jointEnv is the environment variable that names the directory of the inputs to the workers.
const jointEnv = "GPERF_HOSTILE_JOINT"

// jointShare is how many mutated files there are for each joint case: reading them takes longer.
const jointShare = 50

// TestHostileJoint: mutations of recordings together with mutations of the programs that they name, or of archives of
// both, yield an error or samples.
func TestHostileJoint(t *testing.T) {
	t.Setenv(jointEnv, makeJointInputs(t))
	set := jointSet(t)
	set.run(t, saver(t, set))
}

// makeJointInputs records each program and packs it, and returns the directory.
func makeJointInputs(t *testing.T) string {
	t.Helper()
	needEvents(t)
	all := t.TempDir()
	for _, in := range jointInputs {
		dir := filepath.Join(all, in.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		program, file := filepath.Join(dir, jointProgram), filepath.Join(dir, "perf.data")
		copyFile(t, in.program.Path(t), program)
		mustRecord(t, dir, "-e", "cpu-clock:u", "-F", "99", in.record, "--", program, in.args)
		mustGperf(t, "archive", "-i", file, "-o", filepath.Join(dir, jointZip))
		for how, args := range map[string][]string{
			"files":   {"-i", file, "--symfs", dir + ",flat"},
			"archive": {"-i", filepath.Join(dir, jointZip)},
		} {
			text := mustGperf(t, append([]string{"script", "-F", "ip,sym,srcline"}, args...)...)
			if !strings.Contains(text, in.line) {
				t.Fatalf("%s: script of the %s shows no %s\n%.2000s", in.name, how, in.line, text)
			}
		}
		if in.name != "go" { // perf's archives contain only files with a build ID
			packAsPerf(t, dir, in.line)
		}
	}
	return all
}

// packAsPerf makes perf's archive of the recording in dir.
func packAsPerf(t *testing.T, dir, line string) {
	t.Helper()
	file, tar, others := filepath.Join(dir, "perf.data"), filepath.Join(dir, jointTar), filepath.Join(dir, "others")
	if err := os.WriteFile(others, []byte("libc\nld-linux\nvdso\nkernel\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustGperf(t, "archive", "--perf", "--exclude-buildids", others, "-i", file, "-o", tar)
	unpacked := filepath.Join(dir, "unpacked")
	if err := os.Mkdir(unpacked, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, tar, filepath.Join(unpacked, jointTar))
	var text, stderr bytes.Buffer
	args := []string{"script", "-F", "ip,sym,srcline", "-i", file, "--symfs", unpacked + ",flat"}
	if unpackAndRun(args, &text, &stderr); !strings.Contains(text.String(), line) {
		t.Fatalf("script with perf's archive in %s shows no %s\n%s%.2000s", dir, line, &stderr, &text)
	}
}

// joint is a recording, the program that it names, and both in archives, as specimens.
type joint struct {
	name                         string
	recording, program, zip, tar *specimen
	members                      []*specimen // of the zip file, except the index
}

func readJoint(t *testing.T, dir string) *joint {
	t.Helper()
	read := func(name string) *specimen { return readSpecimen(t, filepath.Join(dir, name)) }
	in := &joint{name: filepath.Base(dir), recording: read("perf.data"), program: read(jointProgram),
		zip: read(jointZip)}
	in.program.exploreELF()
	in.zip.exploreMarks("PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x07\x08")
	if _, err := os.Stat(filepath.Join(dir, jointTar)); err == nil {
		in.tar = read(jointTar)
		in.tar.exploreBlocks()
	}
	a, err := archive.Open(bytes.NewReader(in.zip.data), int64(len(in.zip.data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range a.Names() {
		if name == ".pieces" {
			continue
		}
		b, err := fs.ReadFile(a, name)
		if err != nil {
			t.Fatal(err)
		}
		s := newSpecimen(name, b)
		s.exploreELF()
		in.members = append(in.members, s)
	}
	return in
}

// jointSet are mutations of recordings, programs and archives, each alone and together.
func jointSet(t *testing.T) hostileSet {
	var all []*joint
	for _, in := range jointInputs {
		all = append(all, readJoint(t, filepath.Join(os.Getenv(jointEnv), in.name)))
	}
	return hostileSet{name: "joint", least: 50, count: int(*mutationCount / jointShare), at: func(i int) hostileCase {
		rng := rand.New(rand.NewPCG(*mutationSeed, uint64(i)))
		in := all[rng.IntN(len(all)-1)]
		if rng.IntN(8) == 0 {
			in = all[len(all)-1] // Go's is large
		}
		c := hostileCase{command: jointCommands[rng.IntN(len(jointCommands))], run: run}
		switch k := rng.IntN(16); {
		case k < 9:
			c.tree = in.loose(rng)
			c.name = "files"
		case k < 15 || in.tar == nil:
			c.tree = in.packed(rng)
			c.name = "archive"
		default:
			c.tree = in.perfPacked(rng)
			c.run = unpackAndRun
			c.name = "perf's archive"
		}
		for _, b := range c.tree {
			c.size += len(b)
		}
		c.name = fmt.Sprintf("joint mutation %d of the %s of %s (-mutation-seed %d)", i, c.name, in.name, *mutationSeed)
		return c
	}}
}

// change mutates a file; splices are parts of another one.
func change(rng *rand.Rand, from, other *specimen) []byte {
	return (&mutation{rng: rng, from: from, other: other}).change()
}

// loose returns a recording and a program, one or both changed.
func (in *joint) loose(rng *rand.Rand) map[string][]byte {
	files := map[string][]byte{"perf.data": in.recording.data, jointProgram: in.program.data}
	which := 1 + rng.IntN(3)
	if which&1 != 0 {
		files["perf.data"] = change(rng, in.recording, in.program)
	}
	if which&2 != 0 {
		files[jointProgram] = change(rng, in.program, in.recording)
	}
	return files
}

// packed returns an archive: one or two members are changed, the archive's own bytes, or both.
func (in *joint) packed(rng *rand.Rand) map[string][]byte {
	zip := in.zip
	which := 1 + rng.IntN(3)
	if which&1 != 0 {
		zip = newSpecimen(zip.name, in.repack(rng))
		zip.exploreMarks("PK\x01\x02", "PK\x03\x04", "PK\x05\x06", "PK\x07\x08")
	}
	b := zip.data
	if which&2 != 0 {
		b = change(rng, zip, in.program)
	}
	return map[string][]byte{"perf.data": b}
}

func (in *joint) repack(rng *rand.Rand) []byte {
	changed := [2]int{rng.IntN(len(in.members)), rng.IntN(len(in.members))}
	var out bytes.Buffer
	w := archive.NewWriter(&out)
	for i, m := range in.members {
		b := m.data
		if i == changed[0] || i == changed[1] {
			b = change(rng, m, in.members[changed[0]])
		}
		if err := w.Add(m.name, time.Unix(1e9, 0), bytes.NewReader(b)); err != nil {
			panic(err) // memory takes all
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// perfPacked returns a recording and a changed archive of perf's format with the program.
func (in *joint) perfPacked(rng *rand.Rand) map[string][]byte {
	files := map[string][]byte{"perf.data": in.recording.data, jointTar: change(rng, in.tar, in.program)}
	if rng.IntN(2) == 0 {
		files["perf.data"] = change(rng, in.recording, in.program)
	}
	return files
}

// unpackAndRun unpacks perf's archive next to the recording, where the command finds the files, then runs the command.
func unpackAndRun(args []string, stdout, stderr io.Writer) int {
	at := argAfter(args, "--symfs")
	dir := strings.TrimSuffix(at, ",flat")
	if code := run([]string{"archive", "--unpack", "-i", filepath.Join(dir, jointTar), "--symfs", dir}, io.Discard,
		stderr); code == exitUsage {
		return code
	}
	return run(args, stdout, stderr)
}

func argAfter(args []string, flag string) string {
	for i, a := range args[:len(args)-1] {
		if a == flag {
			return args[i+1]
		}
	}
	return ""
}

// exploreELF adds the headers and the sections that gperf reads to the places where mutations hurt.
func (s *specimen) exploreELF() {
	f, err := elf.NewFile(bytes.NewReader(s.data))
	if err != nil {
		return
	}
	s.order, s.records, s.borders = bin.LittleEndian, nil, nil
	s.border(0, 64, s.u(32, 8), s.u(40, 8), len(s.data))
	for i := range f.Progs {
		s.records = append(s.records, s.u(32, 8)+i*s.u(54, 2))
	}
	for i, section := range f.Sections {
		s.records = append(s.records, s.u(40, 8)+i*s.u(58, 2))
		if section.Type == elf.SHT_NOBITS || section.Size == 0 {
			continue
		}
		from, size := int(section.Offset), int(section.FileSize)
		s.border(from, from+size)
		if section.Flags&elf.SHF_EXECINSTR != 0 || strings.HasSuffix(section.Name, ".rodata") {
			continue
		}
		for off := 0; off < size; off += max(16, size/32) {
			s.records = append(s.records, from+off)
		}
	}
}

// exploreMarks makes records of the places that begin with one of the marks.
func (s *specimen) exploreMarks(marks ...string) {
	s.records = nil
	for _, mark := range marks {
		for at := 0; ; {
			n := bytes.Index(s.data[at:], []byte(mark))
			if n < 0 {
				break
			}
			s.records = append(s.records, at+n)
			s.border(at + n)
			at += n + len(mark)
		}
	}
}

// exploreBlocks makes records of a tar file's headers.
func (s *specimen) exploreBlocks() {
	s.records = nil
	for at := 0; at+512 <= len(s.data); at += 512 {
		if bytes.HasPrefix(s.data[at+257:], []byte("ustar")) {
			s.records = append(s.records, at, at+100, at+200)
		}
	}
}
