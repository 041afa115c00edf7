package tracepoint

import "testing"

func TestPrinted(t *testing.T) {
	const drop = "skbaddr=0xffff rx_sk=(nil) location=f+0x4 reason: NO_SOCKET"
	for _, test := range []struct{ text, name, want string }{
		{drop, "location", "f+0x4"},
		{drop, "reason", "NO_SOCKET"},
		{drop, "skb", ""},
		{drop, "protocol", ""},
		{"comm:sh pid=4", "comm", "sh"},
		{"x=1 reason:", "reason", ""},
		{"", "reason", ""},
	} {
		if got := Printed(test.text, test.name); got != test.want {
			t.Errorf("%q of %q: got %q, want %q", test.name, test.text, got, test.want)
		}
	}
}
