package format

// branchHWIndex is PERF_SAMPLE_BRANCH_HW_INDEX: a word precedes the entries.
const branchHWIndex = 1 << 17

// Branches is a branch stack, newest entry first (struct perf_branch_entry of
// include/uapi/linux/perf_event.h).
type Branches struct {
	words   Words
	hwIndex Words // at most one
}

// Branch returns the sample's branch stack; a is its event's attr.
func (s *Sample) Branch(a *Attr) Branches {
	w := s.BranchStack
	if a.BranchSampleType&branchHWIndex == 0 || w.Len() == 0 {
		return Branches{words: w}
	}
	return Branches{w.Slice(1, w.Len()), w.Slice(0, 1)}
}

// HWIndex returns the hardware index of the newest branch, if the attr requests it
// (PERF_SAMPLE_BRANCH_HW_INDEX). -1 means unknown.
func (b Branches) HWIndex() (i int64, ok bool) {
	if b.hwIndex.Len() == 0 {
		return 0, false
	}
	return int64(b.hwIndex.At(0)), true
}

// Len returns the number of branches.
func (b Branches) Len() int { return b.words.Len() / 3 }

// From and To return the source and target of branch i.
func (b Branches) From(i int) uint64 { return b.words.At(3 * i) }
func (b Branches) To(i int) uint64   { return b.words.At(3*i + 1) }

// Flags returns the bit-fields of branch i. The first bit-field is in the lowest bits, in
// either byte order of the file.
func (b Branches) Flags(i int) uint64 { return b.words.Bits(3*i + 2) }
