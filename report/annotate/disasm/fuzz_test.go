package disasm

import (
	"debug/elf"
	"testing"
)

// FuzzAll: whatever the bytes are, all of them are in the instructions, once.
func FuzzAll(f *testing.F) {
	f.Add(false, []byte("\x48\x89\xfa\xe8\xfb\x0f\x00\x00\x62\xf1\x7c\x48\x10\x04\x25\x01\x02\x03\x04\xc3"))
	f.Add(false, []byte("\xc5\xf8\x77\x66\x90\xf3\x0f\x1e\xfa\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x0f\x01\xee\xc4"))
	f.Add(true, []byte("\x00\x04\x00\x94\xe0\xff\x1f\x37\x00\x00\x00\x90\xc0\x03\x5f\xd6\x01"))
	f.Fuzz(func(t *testing.T, arm bool, code []byte) {
		m := elf.EM_X86_64
		if arm {
			m = elf.EM_AARCH64
		}
		for _, syntax := range []Syntax{ATT, Intel} {
			list, err := All(m, code, 1<<63, syntax)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, in := range list {
				if len(in.Bytes) == 0 || in.Addr != 1<<63+uint64(n) || in.Text(nameless) == "" {
					t.Fatalf("%d bytes %x at %#x, after %d: %q", len(in.Bytes), in.Bytes, in.Addr, n, in.Text(nameless))
				}
				n += len(in.Bytes)
			}
			if n != len(code) {
				t.Fatalf("%d of %d bytes", n, len(code))
			}
		}
		if at := len(code) / 2; Skip(m, code, at) > at {
			t.Fatal("skipped what was asked for")
		}
	})
}
