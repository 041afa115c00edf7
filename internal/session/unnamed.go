package session

import (
	"gperf/internal/dso"
	"gperf/symbolize"
)

// File is a DSO as symbolize knows it.
type File struct {
	Path string
	ID   dso.BuildID
}

// Unnamed returns for each file the fraction of samples, from 0 to 1, in which its
// address has no name: its innermost address in the callchain, or the sampled one.
// Addresses that were not looked up do not count. Call it after Walk.
func (h *History) Unnamed() map[File]float64 {
	for _, block := range h.chainBlocks {
		for i := range block {
			c := &block[i]
			h.countFrames(c.frames, c.samples)
			c.samples = 0
		}
	}
	unnamed := map[File]float64{}
	for _, block := range h.frameBlocks {
		for i := range block {
			if f := &block[i]; f.samples > 0 && f.why != symbolize.Found {
				unnamed[File{f.Map.DSO.Name, f.Map.DSO.BuildID}] += float64(f.samples) / float64(h.resolved)
			}
		}
	}
	return unnamed
}

// countFrames counts samples for the innermost frame of each file in a part of a
// callchain.
func (h *History) countFrames(frames []*Frame, samples int) {
	h.counted++
	for _, f := range frames {
		if f.Map != nil && !f.Kernel && f.Map.counted != h.counted {
			f.Map.counted = h.counted
			f.samples += samples
		}
	}
}
