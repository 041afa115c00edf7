package procfs

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU limits the CPU numbers in a list.
const maxCPU = 1 << 16

// ParseCPUList parses a list of CPUs as the kernel writes it: "0-3,8".
func ParseCPUList(s string) ([]int, error) {
	var l []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(part, "-")
		a, err := strconv.ParseUint(from, 10, 16)
		b := a
		if err == nil && ranged {
			b, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || b < a || b >= maxCPU {
			return nil, fmt.Errorf("list of CPUs %q: %q is neither a number nor a range", s, part)
		}
		for ; a <= b; a++ {
			l = append(l, int(a))
		}
	}
	return l, nil
}
