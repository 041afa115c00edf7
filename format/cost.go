package format

import (
	"encoding/json"
	"time"
)

// FeatureCost is a section of gperf's own, which perf skips: a Cost as JSON.
const FeatureCost Feature = 224

// FeatureNames is a section of gperf's own, which perf skips: the names of containers and pods as JSON.
const FeatureNames Feature = 225

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
