package export

import (
	"io"

	"gperf/format"
	"gperf/internal/session"
)

// findOffset finds the difference between the recording's times and ns since 1970: by CLOCK_DATA, or else by the
// times of the file and of the last sample. It reads the file for the latter if the header lacks it.
func (r *Rows) findOffset() error {
	f := r.session.File
	if d, ok := f.ClockData(); ok {
		r.offset = int64(d.Offset())
		return nil
	}
	r.Estimated = true
	if r.session.Written.IsZero() {
		return nil
	}
	r.offset = r.session.Written.UnixNano()
	if bounds := f.Uint64s(format.FeatureSampleTime, 2); len(bounds) == 2 && bounds[1] > 0 {
		r.offset -= int64(bounds[1])
		return nil
	}
	if f.Pipe { // it can be read only once
		r.pending = true
		return nil
	}
	last, err := lastTime(f)
	r.offset -= int64(last)
	return err
}

// lastTime returns the time of the last sample, in ns.
func lastTime(f *format.File) (last uint64, err error) {
	var s format.Sample
	raws := make([]format.Raw, 0, 512)
	reader := f.RecordsAsWritten()
	for err == nil {
		raws, err = reader.Append(raws[:0])
		for i := range raws {
			if raws[i].Type == format.TypeSample && f.Sample(raws[i], &s) == nil {
				last = max(last, s.Time)
			}
			raws[i].Release()
		}
	}
	if err == io.EOF {
		return last, nil
	}
	return last, err
}

// time returns the time of a sample in ns since 1970.
func (r *Rows) time(s *session.Sample) int64 {
	if r.pending {
		r.offset, r.pending = r.offset-int64(s.Time), false
	}
	return int64(s.Time) + r.offset
}
