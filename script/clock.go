package script

import "time"

// appendDay appends a time of day, which is in ns since 1970.
func appendDay(b []byte, ns uint64, nanosecs bool) []byte {
	text := "2006-01-02 15:04:05.000000 "
	if nanosecs {
		text = "2006-01-02 15:04:05.000000000 "
	}
	return time.Unix(int64(ns/1e9), int64(ns%1e9)).AppendFormat(b, text)
}
