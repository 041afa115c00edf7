package text

import "fmt"

// Duration returns a time in ns with three digits and its unit: 12.3 ms.
func Duration(ns uint64) string {
	for _, u := range [...]struct {
		size uint64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}} {
		if ns < u.size {
			continue
		}
		v, digits := float64(ns)/float64(u.size), 2
		if v >= 99.95 {
			digits = 0
		} else if v >= 9.995 {
			digits = 1
		}
		return fmt.Sprintf("%.*f %s", digits, v, u.name)
	}
	return fmt.Sprintf("%d ns", ns)
}
