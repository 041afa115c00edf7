package symbolize

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gperf/internal/dso"
)

func BenchmarkParseKallsyms(b *testing.B) {
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		b.Skip("no /proc/kallsyms: ", err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseKallsyms(bytes.NewReader(text)); err != nil {
			b.Skip(err)
		}
	}
}

func BenchmarkUserTable(b *testing.B) {
	paths := []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libstdc++.so.6"}
	if goroot, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		paths = append(paths, filepath.Join(strings.TrimSpace(string(goroot)), "bin/go"))
	}
	for _, path := range paths {
		b.Run(filepath.Base(path), func(b *testing.B) {
			if _, err := os.Stat(path); err != nil {
				b.Skip(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s := New(Options{Demangle: true})
				if err := s.Problem(path, dso.BuildID{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	s := New(Options{Demangle: true})
	lo, hi := s.KernelRange()
	if lo == hi {
		b.Skip("no kernel symbols: ", s.KernelProblem())
	}
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i += 4099 {
		s.Kernel(lo + i%(hi-lo))
	}
}
