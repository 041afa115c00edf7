package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
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

// userChains returns the user callchains of a recording's samples, by event, thread and time:
// two events at one place have them in the same order.
func userChains(t *testing.T, path string) [][][]uint64 {
	t.Helper()
	f := read(t, path).File
	byThread := make([]map[int32][][]uint64, len(f.Attrs))
	for i := range byThread {
		byThread[i] = map[int32][][]uint64{}
	}
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
		var chain []uint64
		for i := range s.Callchain.Len() {
			if ip := s.Callchain.At(i); ip < format.ContextMax {
				chain = append(chain, ip)
			}
		}
		byThread[s.Event][s.TID] = append(byThread[s.Event][s.TID], chain)
	}
	chains := make([][][]uint64, len(f.Attrs))
	for i, threads := range byThread {
		for _, tid := range slices.Sorted(maps.Keys(threads)) {
			chains[i] = append(chains[i], threads[tid]...)
		}
	}
	return chains
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
	chains := userChains(t, file)
	fp, walked := chains[0], chains[1]
	if len(fp) != len(walked) || len(fp) < 3000 {
		t.Fatalf("%d hits with frame pointers, %d by CFI", len(fp), len(walked))
	}
	same := 0
	for i := range fp {
		if slices.Equal(fp[i], walked[i]) {
			same++
		}
		end := slices.IndexFunc(walked[i], func(ip uint64) bool {
			return ip-1 >= exit.Value && ip-1 < exit.Value+exit.Size
		})
		if end >= 0 && end != len(walked[i])-1 {
			t.Fatalf("frames below runtime.goexit: %x", walked[i])
		}
	}
	// What the first round's hits come to depends on when the program's table is there.
	if same < len(fp)*20/21 {
		t.Errorf("%d of %d stacks are the same", same, len(fp))
	}
}
