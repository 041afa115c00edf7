package format

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FeatureCost is a section of gperf's own, which perf skips: a Cost as JSON.
const FeatureCost Feature = 224

// Cost is what a recording took of its machine. Times in JSON are in ns.
type Cost struct {
	Start  time.Duration `json:"start"`  // CPU time of the recorder until it recorded
	CPU    time.Duration `json:"cpu"`    // from then on
	Wall   time.Duration `json:"wall"`   // how long it recorded
	Memory uint64        `json:"memory"` // largest resident size of the recorder, in bytes
	Lost   uint64        `json:"lost"`   // samples
	// Programs are the BPF programs that ran; nil unless their time was measured.
	Programs []ProgramCost `json:"programs,omitempty"`
}

// ProgramCost is the time that a BPF program took, which is CPU time of what is recorded.
type ProgramCost struct {
	Name string        `json:"name"`
	Runs uint64        `json:"runs"`
	Time time.Duration `json:"time"`
}

// Cost returns the section of what the recording took.
func (f *File) Cost() (Cost, bool) { return decoded(f, FeatureCost, parseCost) }

func parseCost(c *cursor) (cost Cost) {
	if json.Unmarshal(c.b, &cost) != nil {
		c.short = true
	}
	c.b = nil
	return cost
}

// CostSection returns the section of what the recording took.
func CostSection(c Cost) Section {
	b, _ := json.Marshal(c) // it has numbers and texts only
	return Section{FeatureCost, b}
}

// ProgramTime is the time of all programs.
func (c *Cost) ProgramTime() (t time.Duration) {
	for _, p := range c.Programs {
		t += p.Time
	}
	return t
}

// String returns a line such as "0.21 s of CPU time to start, then 0.42 % of one CPU for 60.0 s (BPF programs 0.10 %:
// sample_ends 0.08 %), 35.2 MB, 0 samples lost".
func (c *Cost) String() string {
	share := func(d time.Duration) string {
		return fmt.Sprintf("%.2f %%", 100*float64(d)/float64(max(c.Wall, 1)))
	}
	all := c.CPU + c.ProgramTime()
	var programs []string
	for _, p := range slices.SortedFunc(slices.Values(c.Programs), func(a, b ProgramCost) int {
		return cmp.Compare(b.Time, a.Time)
	}) {
		programs = append(programs, p.Name+" "+share(p.Time))
	}
	s := fmt.Sprintf("%.2f s of CPU time to start, then %s of one CPU for %.1f s", c.Start.Seconds(), share(all),
		c.Wall.Seconds())
	if len(programs) > 0 {
		s += fmt.Sprintf(" (BPF programs %s: %s)", share(all-c.CPU), strings.Join(programs[:min(len(programs), 3)], ", "))
	}
	return s + fmt.Sprintf(", %.1f MB, %d samples lost", float64(c.Memory)/1e6, c.Lost)
}
