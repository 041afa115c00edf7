package record

import (
	"os"
	"testing"
)

func TestParsePages(t *testing.T) {
	page := os.Getpagesize()
	for s, want := range map[string]int{
		"1": 1, "3": 4, "128": 128, "0": 1, "1B": 1, "512K": 512 << 10 / page, "100K": 1 << 17 / page, "1M": 1 << 20 / page, "1G": 1 << 30 / page,
	} {
		n, rounded, err := ParsePages(s)
		if err != nil || n != want {
			t.Errorf("%s: %d pages, %v; want %d", s, n, err, want)
		}
		if (s == "3" || s == "100K") != rounded && s != "0" && s != "1B" {
			t.Errorf("%s: rounded is %v", s, rounded)
		}
	}
	for _, s := range []string{"", "K", "x", "-1", "1.5M", "1T", "16,16", "2147483647G"} {
		if n, _, err := ParsePages(s); err == nil {
			t.Errorf("%q: %d pages", s, n)
		}
	}
}
