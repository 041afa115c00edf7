package perfevent

import (
	"encoding/binary"
	"slices"
	"testing"
)

// TestRecordsFrom checks rings that are filled backwards: the newest record is at the head,
// and the ring ends with unused space, with a record whose end is overwritten, or with an
// invalid record.
func TestRecordsFrom(t *testing.T) {
	const size = 128
	for _, c := range []struct {
		name  string
		sizes []uint16 // of the records, the newest first
		want  []byte   // which are returned, the oldest first
	}{
		{"empty", nil, nil},
		{"one", []uint16{24}, []byte{0}},
		{"not full", []uint16{16, 24, 32}, []byte{2, 1, 0}},
		{"exactly full", []uint16{64, 24, 40}, []byte{2, 1, 0}},
		{"the oldest is overwritten", []uint16{64, 32, 24, 40}, []byte{2, 1, 0}},
		{"larger than the ring", []uint16{136}, nil},
		{"too small", []uint16{16, 4}, []byte{0}},
	} {
		for _, head := range []uint64{0, 40, ^uint64(0) - 39, ^uint64(0) - 1023} {
			r := &Ring{words: ringWords(make([]byte, size))}
			pos := head
			for i, n := range c.sizes {
				var record [8]byte
				record[0] = byte(i)
				binary.LittleEndian.PutUint16(record[6:], n)
				if pos-head <= size-8 {
					copy(r.data[pos%size:], record[:])
				}
				pos += uint64(n)
			}
			var got []byte
			at := r.recordsFrom(head)
			for _, pos := range slices.Backward(at) {
				got = append(got, r.data[pos%size])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, head %#x: records %v instead of %v", c.name, head, got, c.want)
			}
		}
	}
}
