package record

import (
	"fmt"
	"os"
	"strconv"

	"gperf/internal/text"
)

// maxPages limits the size of a ring, in pages: 1 TiB.
const maxPages = 1 << 28

// ParsePages parses the ring size of -m: a number of pages, or of bytes with the unit B, K, M
// or G. It rounds the number of pages up to a power of 2; rounded reports whether that
// changed it.
func ParsePages(s string) (pages int, rounded bool, err error) {
	var n uint64
	if size, unit := text.Quantity(s); text.Sizes[unit] != 0 {
		page := uint64(os.Getpagesize())
		n = (uint64(size*text.Sizes[unit]) + page - 1) / page
	} else if n, err = strconv.ParseUint(s, 10, 31); err != nil {
		return 0, false, fmt.Errorf("ring size %q: neither a number of pages nor of bytes with B, K, M or G", s)
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
