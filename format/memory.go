package format

// Weights splits union perf_sample_weight of a sample of attr a. It returns the latencies
// of a memory access, of the instruction, and of its retirement, in cycles. Without
// SampleWeightStruct only the first one is set.
func (s *Sample) Weights(a *Attr) (weight uint64, insLat, retireLat uint16) {
	if a.SampleType&SampleWeightStruct == 0 {
		return s.Weight, 0, 0
	}
	return s.Weight & 0xffffffff, uint16(s.Weight >> 32), uint16(s.Weight >> 48)
}
