package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gperf/format"
)

// CostText returns a line such as "0.21 s of CPU time to start, then 0.42 % of one CPU for 60.0 s (BPF programs 0.10 %:
// sample_ends 0.08 %), 35.2 MB, 0 samples lost".
func CostText(c *format.Cost) string {
	share := func(d time.Duration) string {
		return fmt.Sprintf("%.2f %%", 100*float64(d)/float64(max(c.Wall, 1)))
	}
	all := c.CPU + c.ProgramTime()
	var programs []string
	for _, p := range slices.SortedFunc(slices.Values(c.Programs), func(a, b format.ProgramCost) int {
		return cmp.Compare(b.Time, a.Time)
	}) {
		programs = append(programs, p.Name+" "+share(p.Time))
	}
	s := fmt.Sprintf("%.2f s of CPU time to start, then %s of one CPU for %.1f s", c.Start.Seconds(), share(all),
		c.Wall.Seconds())
	if len(programs) > 0 {
		most := strings.Join(programs[:min(len(programs), 3)], ", ")
		s += fmt.Sprintf(" (BPF programs %s: %s)", share(all-c.CPU), most)
	}
	return s + fmt.Sprintf(", %.1f MB, %d samples lost", float64(c.Memory)/1e6, c.Lost)
}
