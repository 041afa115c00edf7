package x86

import (
	"encoding/hex"
	"strings"
	"testing"
)

// record/probe/program compares all instructions of libc and of a Go program with objdump's.

func TestTruncated(t *testing.T) {
	for _, code := range []string{"", "66", "48", "0f", "c5", "62f1", "48b811223344556677", "8b04",
		"8b05112233", "6a", "f6", strings.Repeat("26", 14) + "65"} {
		b, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		if n := Decode(b).Len; n != 0 {
			t.Errorf("%q has %d bytes", code, n)
		}
	}
}
