package script

import "testing"

// The texts are perf 7.3's.
func TestBPFOutput(t *testing.T) {
	for data, want := range map[string]string{
		"": "\n",
		"hello\x00": "\n" +
			"      BPF output: 0000: 68 65 6c 6c 6f 00        hello.  \n" +
			"      BPF string: \"hello\"\n",
		"0123456789\x01": "\n" +
			"      BPF output: 0000: 30 31 32 33 34 35 36 37  01234567\n" +
			"                  0008: 38 39 01                 89.     \n",
		"a\x00b\x00": "\n" +
			"      BPF output: 0000: 61 00 62 00              a.b.    \n",
		"\x01\x7f\xe9": "\n" +
			"      BPF output: 0000: 01 7f e9                 ..\xe9     \n",
	} {
		if got := string(appendBPFOutput(nil, []byte(data))); got != want {
			t.Errorf("%q:\n got %q\nwant %q", data, got, want)
		}
	}
}
