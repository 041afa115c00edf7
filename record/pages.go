package record

import (
	"fmt"
	"os"
	"strconv"
)

// maxPages limits the size of a ring, in pages: 1 TiB.
const maxPages = 1 << 28

// ParsePages parses the ring size of -m: a number of pages, or of bytes with the unit B, K, M
// or G. It rounds the number of pages up to a power of 2; rounded reports whether that
// changed it.
func ParsePages(s string) (pages int, rounded bool, err error) {
	shift := -1
	digits := s
	if s != "" {
		switch s[len(s)-1] {
		case 'B':
			shift = 0
		case 'K':
			shift = 10
		case 'M':
			shift = 20
		case 'G':
			shift = 30
		}
		if shift >= 0 {
			digits = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return 0, false, fmt.Errorf("ring size %q: neither a number of pages nor of bytes with B, K, M or G", s)
	}
	if shift >= 0 {
		page := uint64(os.Getpagesize())
		n = (n<<shift + page - 1) / page
	}
	if n > maxPages {
		return 0, false, fmt.Errorf("ring size %q: more than %d pages", s, maxPages)
	}
	pages = 1
	for uint64(pages) < n {
		pages *= 2
	}
	return pages, uint64(pages) != n, nil
}
