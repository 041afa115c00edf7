package procfs

import (
	"bytes"
	"os"
	"testing"
)

func BenchmarkSymbols(b *testing.B) {
	text, err := os.ReadFile(Kallsyms)
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range Symbols(bytes.NewReader(text)) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
