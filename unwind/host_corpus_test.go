//go:build linux

package unwind

import (
	"compress/gzip"
	"debug/elf"
	"encoding/gob"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gperf/internal/runtimes/hotspot"
)

// capture is the data that the walks of a program read at some stops: the contents of a file of testdata/walks.
type capture struct {
	Machine elf.Machine
	Maps    []hostMapping
	Tables  []Table
	Entries []uint64 // of the tables' programs: vaddrs
	Heaps   []hotspot.Heap
	Stops   []snapshot
}

// snapshot is a moment at which a program was stopped: its memory, in lines of lineSize bytes, and threads.
type snapshot struct {
	Lines   []uint64 // addresses, in order
	Memory  []byte   // and contents
	Threads []thread
}

// lineSize is the size of the lines in bytes: captures have those from which walks read something.
const lineSize = 64

// walksDir is the folder of captures.
const walksDir = "testdata/walks"

// captures returns the names of a machine's captures.
func captures(t testing.TB, m elf.Machine) []string {
	files, err := filepath.Glob(filepath.Join(walksDir, hostTargets[m]+"-*.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded walks of %v in %s", m, walksDir)
	}
	return files
}

// capturedProcesses returns the processes of a machine's captures.
func capturedProcesses(t testing.TB, m elf.Machine) (list []*process) {
	for _, file := range captures(t, m) {
		c, err := readCapture(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i := range c.Stops {
			list = append(list, c.process(file, &c.Stops[i]))
		}
	}
	return list
}

func readCapture(file string) (*capture, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	c := new(capture)
	return c, gob.NewDecoder(z).Decode(c)
}

func (c *capture) write(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err := gob.NewEncoder(z).Encode(c); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// process returns the process at a stop.
func (c *capture) process(name string, s *snapshot) *process {
	p := &process{name: name, machine: c.Machine, maps: slices.Clone(c.Maps), heaps: slices.Clone(c.Heaps),
		threads: s.Threads}
	for i := range c.Tables {
		p.addTable(&c.Tables[i], c.Entries[i])
	}
	for i, addr := range s.Lines {
		page := addr &^ (hostPage - 1)
		if n := len(p.pageAt); n == 0 || p.pageAt[n-1] != page {
			p.pageAt, p.memory = append(p.pageAt, page), append(p.memory, make([]byte, hostPage)...)
		}
		copy(p.at(addr), s.Memory[i*lineSize:][:lineSize])
	}
	p.use()
	return p
}
