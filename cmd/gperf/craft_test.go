package main

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// crafted are recordings of about a megabyte that random mutations would not
// find: each asks for more time, memory or text than the size makes one expect.
var crafted = []struct {
	name  string
	build func(r *recorder)
}{
	{"forks of a process with many mappings", func(r *recorder) {
		for i := range uint64(6000) {
			r.mmap(1, i<<16, 0x8000, "/x")
		}
		for i := range uint32(10000) {
			r.record(recordFork, 0, i+2, uint32(1), i+2, uint32(1), uint64(i))
			r.mmap(i+2, 1<<40, 0x8000, "/y")
		}
		r.sample(10001, 0x1000)
	}},
	{"a chain of forks", func(r *recorder) {
		for i := range uint64(6000) {
			r.mmap(1, i<<16, 0x8000, "/x")
		}
		for i := range uint32(10000) {
			r.record(recordFork, 0, i+2, i+1, i+2, i+1, uint64(i))
			r.mmap(i+2, uint64(i)<<16, 0x8000, "/y")
			r.sample(i+2, uint64(i)<<16)
		}
	}},
	{"mappings that cut each other", func(r *recorder) {
		for i := range uint64(15000) {
			r.mmap(1, i*0x1000, (30000-2*i)*0x1000, "/x")
			r.sample(1, i*0x1000)
		}
	}},
	{"a mapping cut into pieces", func(r *recorder) {
		r.mmap(1, 0, 1<<46, "/x")
		for i := range uint64(15000) {
			r.mmap(1, i<<20, 0x1000, "/y")
			r.sample(1, i<<20)
		}
	}},
	{"a long file name in deep callchains", func(r *recorder) {
		r.mmap(1, 0, 1<<40, "/"+strings.Repeat("x", 60000))
		for range 14 {
			r.chain(1, 8000, 0x1000)
		}
	}},
	{"a long comm of many samples", func(r *recorder) {
		r.record(recordComm, 0, uint32(1), uint32(1), bytes.Repeat([]byte("c"), 60000), uint64(0))
		for i := range uint64(20000) {
			r.sample(1, i)
		}
	}},
	{"a kernel symbol with a long name", func(r *recorder) {
		r.record(recordKSymbol, 0, kernelText, uint32(1<<30), uint16(1), uint16(0), bytes.Repeat([]byte("k"), 60000), uint64(0))
		for range 14 {
			r.chain(1, 8000, kernelText)
		}
	}},
	{"rounds of nothing", func(r *recorder) {
		for i := range uint64(12000) {
			r.sample(1, i)
		}
		for range 60000 {
			r.record(recordFinishedRound, 0)
		}
	}},
	{"times that run backwards", func(r *recorder) {
		r.time = 1 << 40
		for i := range uint64(24000) {
			r.time -= 2
			r.sample(1, i)
		}
	}},
	{"a process for each sample", func(r *recorder) {
		for i := range uint32(24000) {
			r.sample(i, uint64(i))
		}
	}},
	{"an event for each sample", func(r *recorder) {
		r.attrs = 8000
		for i := range uint64(1000) {
			r.sample(1, i)
		}
	}},
	// Reading these two takes a CPU half the time that is allowed: one that computes for others, too, may be half as
	// fast.
	{"much compressed", func(r *recorder) {
		for range 20000 {
			r.sample(1, 0x1000)
		}
		r.compress(40)
	}},
	{"a zstd bomb of samples", func(r *recorder) {
		for range 26000 {
			r.sample(1, 0x1000)
			r.time--
		}
		r.compress(300)
	}},
	{"a zstd bomb of zeros", func(r *recorder) {
		r.records = make([]byte, 1<<20)
		r.compress(1 << 10)
	}},
}

// craftedCommands are those that read in different ways.
var craftedCommands = []string{"script", "script <", "script --format folded", "report --stdio",
	"report --format parquet --rows samples"}

func craftedSet(*testing.T) hostileSet {
	n := len(craftedCommands)
	return hostileSet{name: "crafted", count: len(crafted) * n, at: func(i int) hostileCase {
		r := &recorder{attrs: 1}
		crafted[i/n].build(r)
		data := r.file()
		size := len(data)
		if r.inflated > 0 {
			// Compressed data counts by the inflated size, up to a limit.
			size = min(r.inflated, 16<<20+1000*size)
		}
		return hostileCase{crafted[i/n].name, craftedCommands[i%n], data, size, run, nil}
	}}
}

const (
	recordMmap          = 1
	recordComm          = 3
	recordExit          = 4
	recordFork          = 7
	recordSample        = 9
	recordKSymbol       = 17
	recordFinishedRound = 68
	recordCompressed    = 81

	miscKernel = 1
	miscUser   = 2

	kernelText = uint64(0xffffff) << 40
)

// recorder makes a recording whose samples contain ip, tid, time and callchain.
type recorder struct {
	attrs    int
	records  []byte
	time     uint64
	inflated int // size of the records before compress, in bytes
}

func (r *recorder) record(kind uint32, misc uint16, body ...any) {
	var w bytes.Buffer
	for _, v := range body {
		if err := bin.Write(&w, bin.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	w.Write(make([]byte, -w.Len()&7))
	if w.Len()+8 > 1<<16-1 {
		panic(fmt.Sprintf("record of %d bytes", w.Len()+8))
	}
	r.records = bin.LittleEndian.AppendUint32(r.records, kind)
	r.records = bin.LittleEndian.AppendUint16(r.records, misc)
	r.records = bin.LittleEndian.AppendUint16(r.records, uint16(w.Len()+8))
	r.records = append(r.records, w.Bytes()...)
}

func (r *recorder) mmap(pid uint32, start, size uint64, name string) {
	r.record(recordMmap, miscUser, pid, pid, start, size, uint64(0), []byte(name), uint64(0))
}

func (r *recorder) comm(pid uint32, name string) {
	r.record(recordComm, 0, pid, pid, append([]byte(name), 0))
}

// fork and exit are processes with one thread.
func (r *recorder) fork(pid, parent uint32) {
	r.record(recordFork, 0, pid, parent, pid, parent, r.time)
}

func (r *recorder) exit(pid, parent uint32) {
	r.record(recordExit, 0, pid, parent, pid, parent, r.time)
}

// sampleAt is a sample of this CPU mode with this callchain, marks included.
func (r *recorder) sampleAt(misc uint16, pid uint32, ip uint64, chain ...uint64) {
	r.time++
	r.record(recordSample, misc, ip, pid, pid, r.time, uint64(len(chain)), chain)
}

func (r *recorder) sample(pid uint32, ip uint64) {
	r.time++
	r.record(recordSample, miscUser, ip, pid, pid, r.time, uint64(0))
}

// chain is a sample with n addresses from ip on.
func (r *recorder) chain(pid uint32, n int, ip uint64) {
	r.time++
	mark, misc := ^uint64(511), uint16(miscUser) // PERF_CONTEXT_USER
	if ip >= kernelText {
		mark, misc = ^uint64(127), miscKernel // PERF_CONTEXT_KERNEL
	}
	ips := []uint64{mark}
	for i := range uint64(n) {
		ips = append(ips, ip+i)
	}
	r.record(recordSample, misc, ip, pid, pid, r.time, uint64(len(ips)), ips)
}

// compress puts the records so many times into COMPRESSED ones.
func (r *recorder) compress(times int) {
	var w bytes.Buffer
	enc, err := zstd.NewWriter(&w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	r.inflated = times * len(r.records)
	for range times {
		enc.Write(r.records)
	}
	enc.Flush()
	r.records = nil
	for piece := range slices.Chunk(w.Bytes(), 60000) {
		r.record(recordCompressed, 0, piece)
	}
}

// save writes the file, and returns the path.
func (r *recorder) save(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(path, r.file(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *recorder) file() []byte {
	const attrSize, headerSize = 64, 104
	attr := make([]byte, attrSize+16)
	bin.LittleEndian.PutUint32(attr, 1) // software: cpu-clock
	bin.LittleEndian.PutUint32(attr[4:], attrSize)
	bin.LittleEndian.PutUint64(attr[16:], 1)                // period
	bin.LittleEndian.PutUint64(attr[24:], 1|1<<1|1<<2|1<<5) // IP, TID, TIME, CALLCHAIN
	b := []byte("PERFILE2")
	attrs := uint64(r.attrs * len(attr))
	for _, v := range [...]uint64{headerSize, attrSize + 16, headerSize, attrs, headerSize + attrs,
		uint64(len(r.records)), 0, 0, 0, 0, 0, 0} {
		b = bin.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, bytes.Repeat(attr, r.attrs)...)
	return append(b, r.records...)
}
