package suggest

import (
	"slices"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		d    int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"cpu-clokc", "cpu-clock", 2}} {
		if d := distance(c.a, c.b); d != c.d {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, d, c.d)
		}
	}
}

func TestNames(t *testing.T) {
	names := []string{"kfree_skb", "consume_skb", "kfree", "sk_skb_reason_drop"}
	for s, want := range map[string][]string{
		"kfree_skp": {"kfree_skb"},
		"skb":       {"kfree_skb", "consume_skb", "sk_skb_reason_drop"},
		"zzzzzz":    nil,
	} {
		if got := Names(s, names); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
}
