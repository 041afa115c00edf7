package format_test

import (
	"errors"
	"fmt"
	"io"
	"os"

	"gperf/format"
)

// Count a recording's samples by event.
func Example() {
	fd, err := os.Open("../testdata/drops.data")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fd.Close()
	st, err := fd.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := format.Open(fd, st.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := make([]int, len(f.Attrs))
	r := f.Records()
	for {
		raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		var s format.Sample
		if raw.Type == format.TypeSample && f.Sample(raw, &s) == nil {
			counts[s.Event]++
		}
		raw.Release()
	}
	for i, n := range counts {
		fmt.Println(f.EventName(i), n)
	}
	// Output: skb:kfree_skb 5
}
