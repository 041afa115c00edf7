package synth

import (
	"encoding/binary"
	"slices"

	"gperf/format"
	"gperf/internal/procfs"
)

// Stamp writes a time into the sample ids of records. A sample id begins with the
// thread, followed by the time.
func Stamp(b []byte, idSize int, at uint64) {
	for rec := range format.Records(b) {
		binary.LittleEndian.PutUint64(rec[len(rec)-idSize+8:], at)
	}
}

// AppendAt appends the record of a mapping with its time.
func AppendAt(b []byte, m *format.Mmap, idSize int) []byte {
	from := len(b)
	b = m.Append(b, idSize)
	Stamp(b[from:], idSize, m.ID.Time)
	return b
}

// WithDescendants adds the descendants of some processes.
func WithDescendants(pids []int) []int {
	children := map[int][]int{}
	all, _ := procfs.Processes()
	for _, pid := range all {
		if st, err := procfs.StatusOf(pid); err == nil {
			children[st.PPid] = append(children[st.PPid], pid)
		}
	}
	l := slices.Clone(pids)
	for i := 0; i < len(l); i++ {
		for _, child := range children[l[i]] {
			if !slices.Contains(l, child) {
				l = append(l, child)
			}
		}
	}
	return l
}
