package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"gperf/format"
	"gperf/internal/testutil/programs"
)

var goroutines = programs.Go("testdata/goroutines.go")

// goSymbol returns where a Go program's function lies, and its code.
func goSymbol(t *testing.T, path, name string) (sym elf.Symbol, code []byte) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(syms, func(s elf.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("%s has no %s", path, name)
	}
	text := f.Section(".text")
	code = make([]byte, syms[i].Size)
	if _, err := text.ReadAt(code, int64(syms[i].Value-text.Addr)); err != nil {
		t.Fatal(err)
	}
	return syms[i], code
}

// hit is the user callchain that an event has of a probe's hit.
type hit struct {
	event int
	time  uint64
	chain []uint64
}

// hitsByThread returns the samples of a recording, by thread and time.
func hitsByThread(t *testing.T, path string) map[int32][]hit {
	t.Helper()
	f := read(t, path).File
	threads := map[int32][]hit{}
	recs := f.Records()
	var s format.Sample
	for {
		raw, err := recs.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if raw.Type != format.TypeSample {
			continue
		}
		if err := f.Sample(raw, &s); err != nil {
			t.Fatal(err)
		}
		h := hit{event: s.Event, time: s.Time}
		for i := range s.Callchain.Len() {
			if ip := s.Callchain.At(i); ip < format.ContextMax {
				h.chain = append(h.chain, ip)
			}
		}
		threads[s.TID] = append(threads[s.TID], h)
	}
	for _, hits := range threads {
		slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(a.time, b.time) })
	}
	return threads
}

// pairs returns the chains that the two events at one place have of the same hits: one directly after the other. It
// leaves out hits of which one event has no sample. The kernel runs the events in the same order at each hit.
func pairs(threads map[int32][]hit) (best [][2][]uint64) {
	for first := range 2 {
		var found [][2][]uint64
		for _, hits := range threads {
			for i := 0; i+1 < len(hits); i++ {
				if hits[i].event == first && hits[i+1].event != first {
					var pair [2][]uint64
					pair[hits[i].event], pair[hits[i+1].event] = hits[i].chain, hits[i+1].chain
					found = append(found, pair)
					i++
				}
			}
		}
		if len(found) > len(best) {
			best = found
		}
	}
	return best
}

// A goroutine's stack ends at runtime.goexit, whatever word an earlier stack left
// above it: by CFI and by frame pointers it is the same at the same hit of a probe.
func TestScenarioGoroutineStacks(t *testing.T) {
	needProbes(t, "uprobe")
	program := goroutines.Path(t)
	_, code := goSymbol(t, program, "main.probed")
	mov := []byte{0x48, 0x89, 0xe5} // mov %rsp, %rbp: from there on frame pointers are right
	if runtime.GOARCH == "arm64" {
		mov = []byte{0xfd, 0x23, 0x00, 0xd1} // sub x29, sp, #8
	}
	at := bytes.Index(code, mov)
	if at < 0 {
		t.Fatalf("main.probed keeps no frame pointer: % x", code)
	}
	probe := fmt.Sprintf("uprobe:%s:main.probed+%d", program, at+len(mov))
	file := filepath.Join(t.TempDir(), "perf.data")
	mustRecord(t, "", "-m", "8M", "-o", file, "-e", probe+"/call-graph=fp/,"+probe+"/call-graph=dwarf/", "--", program,
		"21", strconv.Itoa(patience(1)))
	exit, _ := goSymbol(t, program, "runtime.goexit.abi0")
	threads := hitsByThread(t, file)
	samples := 0
	for _, hits := range threads {
		samples += len(hits)
	}
	both := pairs(threads)
	if len(both) < 3000 || len(both)*2 < samples*99/100 {
		t.Fatalf("%d samples, of them %d pairs", samples, len(both))
	}
	same := 0
	for _, p := range both {
		fp, walked := p[0], p[1]
		if slices.Equal(fp, walked) {
			same++
		}
		end := slices.IndexFunc(walked, func(ip uint64) bool {
			return ip-1 >= exit.Value && ip-1 < exit.Value+exit.Size
		})
		if end >= 0 && end != len(walked)-1 {
			t.Fatalf("frames below runtime.goexit: %x", walked)
		}
	}
	// The stacks of the first round's hits depend on when the program's table is there.
	if same < len(both)*20/21 {
		t.Errorf("%d of %d stacks are the same", same, len(both))
	}
}
