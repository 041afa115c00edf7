package script

import "testing"

// The texts are perf 7.3's.
func TestBranchFlags(t *testing.T) {
	for word, want := range map[uint64]string{
		0:                      "/-/-/-/0//- ",
		1:                      "/M/-/-/0//- ",
		2:                      "/P/-/-/0//- ",
		3:                      "/P/-/-/0//- ",
		2 | 1<<2 | 0xffff<<4:   "/P/X/-/65535//- ",
		1 | 1<<3 | 20<<4:       "/M/-/A/20//- ",
		2 | 1<<20:              "/P/-/-/0/COND/- ",
		2 | 6<<20 | 3<<24:      "/P/-/-/0/RET/SPEC_CORRECT_PATH ",
		2 | 14<<20 | 1<<24:     "/P/-/-/0/NO_TX/SPEC_WRONG_PATH ",
		2 | 15<<20:             "/P/-/-/0/FAULT_ALGN/- ",
		2 | 15<<20 | 4<<26:     "/P/-/-/0/ARCH_2/- ",
		2 | 15<<20 | 15<<26:    "/P/-/-/0//- ",
		1 << 33:                "/MN/-/-/0//- ",
		2 | 1<<33 | 7<<30:      "/PN/-/-/0//- ",
		2 | 1<<20 | 2<<24 | 16: "/P/-/-/1/COND/NON_SPEC_CORRECT_PATH ",
	} {
		if got := string(appendFlags(nil, branchFlags(word))); got != want {
			t.Errorf("%#x: %q, want %q", word, got, want)
		}
	}
}
