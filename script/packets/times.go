package packets

import (
	"fmt"
	"strconv"
)

// duration returns a duration, with one digit after the point.
func duration(ns uint64) string {
	switch {
	case ns == 0:
		return "0us"
	case ns < 1e6:
		return tenths(ns, 1e3, "us")
	case ns < 1e9:
		return tenths(ns, 1e6, "ms")
	}
	return tenths(ns, 1e9, "s")
}

// tenths returns a duration in a unit of so many ns, rounded to tenths.
func tenths(ns, size uint64, unit string) string {
	n := ns / (size / 10)
	if ns%(size/10) >= size/20 {
		n++
	}
	return fmt.Sprintf("%d.%d%s", n/10, n%10, unit)
}

// seconds returns a time in seconds, with six or nine digits after the point.
func seconds(ns uint64, nanosecs bool) string {
	s := strconv.FormatUint(ns/1e9, 10)
	if nanosecs {
		return fmt.Sprintf("%s.%09d", s, ns%1e9)
	}
	return fmt.Sprintf("%s.%06d", s, ns%1e9/1000)
}
