package procfs

import "testing"

func TestParseCPUList(t *testing.T) {
	l, err := ParseCPUList("0-2,5,7-7")
	if err != nil || len(l) != 5 || l[3] != 5 || l[4] != 7 {
		t.Errorf("%v, %v", l, err)
	}
	for _, s := range []string{"", ",", "1-", "2-1", "x", "0-99999999"} {
		if l, err := ParseCPUList(s); err == nil {
			t.Errorf("%q: %v", s, l)
		}
	}
}
