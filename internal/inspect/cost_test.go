package inspect

import (
	"testing"
	"time"

	"gperf/format"
)

func TestCostText(t *testing.T) {
	c := format.Cost{
		Start: 210 * time.Millisecond, CPU: 300 * time.Millisecond, Wall: time.Minute, Memory: 35_200_000, Lost: 3,
		Programs: []format.ProgramCost{{Name: "a", Time: 6 * time.Millisecond},
			{Name: "b", Time: 48 * time.Millisecond}, {Name: "c"}, {Name: "d"}}}
	const want = "0.21 s of CPU time to start, then 0.59 % of one CPU for 60.0 s (BPF programs 0.09 %: b 0.08 %, " +
		"a 0.01 %, c 0.00 %), 35.2 MB, 3 samples lost"
	if got := CostText(&c); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	const none = "0.00 s of CPU time to start, then 0.00 % of one CPU for 0.0 s, 0.0 MB, 0 samples lost"
	if got := CostText(new(format.Cost)); got != none {
		t.Errorf("got %s, want %s", got, none)
	}
}
