package symbolize

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"gperf/internal/dso"
)

// FuzzTable: from any bytes that pass for an ELF file a table is made or an error
// returned; every symbol of the table is found, and nothing else.
func FuzzTable(f *testing.F) {
	f.Add(testELF())
	if b, err := os.ReadFile("/proc/self/exe"); err == nil && len(b) > 4096 {
		f.Add(b[:4096])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := dso.NewImage(bytes.NewReader(b), int64(len(b)), "fuzz")
		if err != nil {
			return
		}
		show := New(Options{Demangle: true}).displayName
		table, err := userTable(im, im, show)
		if (err == nil) != (table != nil) {
			t.Fatalf("table %v, error %v", table, err)
		}
		if err != nil {
			return
		}
		if table.Len() > len(b) {
			t.Fatalf("%d symbols from %d bytes", table.Len(), len(b))
		}
		for i := range table.entries {
			sym, ok := table.Lookup(table.entries[i].start)
			if ok && (sym.Start > table.entries[i].start || sym.End < sym.Start && sym.End != 0 && sym.Start < 1<<62) {
				t.Errorf("at %#x: %+v", table.entries[i].start, sym)
			}
		}
		_, _ = vmlinuxSymbols(im)
	})
}

// FuzzKallsyms: any text gives an error or a table in which every ip is found at
// or after its symbol's start.
func FuzzKallsyms(f *testing.F) {
	f.Add(kallsymsText)
	f.Add("0000000000000000 T _stext\n")
	f.Add("ffffffffffffffff T last\nfffffffffffff000 t a\t[m]\n")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseKallsyms(strings.NewReader(text))
		if (err == nil) != (k != nil) {
			t.Fatalf("kallsyms %v, error %v", k, err)
		}
		if err != nil {
			return
		}
		for _, ip := range []uint64{0, 0xffffffff81000000, 0xffffffff81000100, ^uint64(0)} {
			if sym, _, ok := k.Lookup(ip); ok && (ip < sym.Start || ip >= sym.End && ip != sym.Start) {
				t.Errorf("at %#x: %+v", ip, sym)
			}
		}
		k.Range()
	})
}
