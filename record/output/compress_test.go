package output

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// smallDisk is an output of limited size.
type smallDisk struct {
	bytes.Buffer
	size int
}

func (d *smallDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.size-d.Len())
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, unix.ENOSPC
	}
	return n, nil
}

func (d *smallDisk) WriteAt([]byte, int64) (int, error) { return 0, errors.New("not needed here") }
func (d *smallDisk) Seek(int64, int) (int64, error)     { return 0, nil }
func (d *smallDisk) Truncate(size int64) error          { d.Buffer.Truncate(int(size)); return nil }

// TestCompressingFails checks that after a failed write, the file up to the last flush
// contains exactly the reported samples.
func TestCompressingFails(t *testing.T) {
	const size = 64
	for _, room := range []int{1000, 70_000, 3_000_000, 100_000_000} {
		d := &smallDisk{size: room}
		attr := format.Attr{Size: format.AttrSize, SampleType: format.SampleIP}
		w, err := format.NewWriter(d, []format.Attr{attr}, []format.Section{format.CompressedSection(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan bool, 1)
		z, err := newCompressing(w, &Options{Compress: 1, Wake: func() { woken <- true }})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		var sent Counts
		for sent.Samples < 100_000 && err == nil {
			var b []byte
			for range r.IntN(5000) {
				rec := make([]byte, size)
				rec[0], rec[6] = byte(format.TypeSample), size
				for i := 16; i < size; i++ {
					rec[i] = byte(r.Uint32())
				}
				b = append(b, rec...)
				sent.Samples++
			}
			if err = z.write(b); err == nil {
				z.commit(sent)
			}
		}
		size, counts, failed := z.close(func(string, int, int) {})
		if errors.Is(failed, unix.ENOSPC) != (room < 100_000_000) {
			t.Fatalf("room for %d bytes: %v", room, failed)
		}
		if failed != nil {
			<-woken
		} else if counts.Samples != sent.Samples {
			t.Errorf("%d of %d samples", counts.Samples, sent.Samples)
		}
		if err := w.Rewind(size); err != nil {
			t.Fatal(err)
		}
		f, err := format.Open(bytes.NewReader(d.Bytes()), int64(d.Len()))
		if err != nil {
			t.Fatal(err)
		}
		found := uint64(0)
		for recs := f.Records(); ; {
			raw, err := recs.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if raw.Type == format.TypeSample {
				found++
			}
		}
		if found != counts.Samples || room > 1_000_000 && found < 10_000 {
			t.Errorf("room for %d bytes: %d samples in the file, counted as %d", room, found, counts.Samples)
		}
	}
}
