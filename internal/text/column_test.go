package text

import (
	"math"
	"strings"
	"testing"
)

func TestAppendBlanks(t *testing.T) {
	for _, n := range []int{-1, 0, 1, len(blanks), len(blanks) + 1, 3 * len(blanks)} {
		if got, want := string(AppendBlanks([]byte("a"), n)), "a"+strings.Repeat(" ", max(n, 0)); got != want {
			t.Errorf("%d blanks: %q, want %q", n, got, want)
		}
	}
}

func TestAppendNumber(t *testing.T) {
	for _, c := range []struct {
		name, want string
		got        []byte
	}{
		{"padded", "a   -12", AppendInt([]byte("a"), -12, 6)},
		{"wider than the column", "1234", AppendInt(nil, 1234, 2)},
		{"longest int", "-9223372036854775808", AppendInt(nil, math.MinInt64, 0)},
		{"longest uint", " 18446744073709551615", AppendUint(nil, math.MaxUint64, 21)},
		{"hex", "  c0de", AppendHex(nil, 0xc0de, 6)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if string(c.got) != c.want {
				t.Errorf("%q, want %q", c.got, c.want)
			}
		})
	}
}
