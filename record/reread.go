package record

import (
	"time"

	"gperf/format"
	"gperf/record/synth"
)

// When side-band records are lost, the file lacks processes that started meanwhile, and their
// mappings. The recorder then reads /proc again, and writes records with the time of the
// loss, so that later samples can be symbolized.

// rereader reads /proc again.
type rereader struct {
	opts      *plan
	file      *file
	describe  *describer
	losses    *losses
	successor *successor

	lost uint64    // lost records of all kinds at the last check
	side uint64    // lost records at the last check, of events that write side band
	next time.Time // earliest time of the next reading
}

// rereadTime is the minimum interval between two readings of /proc. Reading may take at most
// one part in rereadShare of the recorder's time.
const (
	rereadTime  = time.Second
	rereadShare = 10
)

// check reads /proc again if side band was lost since the last time. At the end of the
// recording it does not wait for the interval.
func (r *rereader) check(end bool) work {
	t := &r.file.tally
	if t.Lost == r.lost || !end && time.Now().Before(r.next) || !r.possible() {
		return nothing
	}
	r.lost = t.Lost
	side := r.losses.sideBand()
	if side == r.side { // only samples were lost
		r.next = time.Now().Add(rereadTime / rereadShare)
		return nothing
	}
	r.side = side
	r.successor.lost()
	start := time.Now()
	return sequence(r.read(t.LostAt), once(func() error {
		r.next = time.Now().Add(max(rereadTime, rereadShare*time.Since(start)))
		return nil
	}))
}

// afterPause writes the recorded processes again, with the time of the last sample: they may have changed unrecorded.
func (r *rereader) afterPause() work {
	if !r.possible() {
		return nothing
	}
	return r.read(r.file.tally.Last)
}

// possible reports whether records about processes can be inserted by their time, before the
// end of the file.
func (r *rereader) possible() bool {
	side := &r.opts.SideBand
	return r.file.described && r.file.tally.Layout.Time >= 0 && !side.TailSynth && side.Omit&synth.Task == 0 &&
		r.file.set.Attrs[0].Flags&format.FlagSampleIDAll != 0
}

// read writes synthesized records of the recorded processes, with a time.
func (r *rereader) read(at uint64) work {
	return func(yield func(error) bool) {
		if at < r.file.closed[0] { // readers are past this time
			at = r.file.closed[1]
		}
		pids, err := r.describe.running()
		if err != nil {
			yield(err)
			return
		}
		if !r.opts.Target.byCPU() {
			pids = synth.WithDescendants(pids)
		}
		r.file.hold = true
		defer func() { r.file.hold = false }()
		idSize := r.describe.idSize()
		s := r.describe.synthesizer(r.opts.SideBand.Omit, func(b []byte) error {
			synth.Stamp(b, idSize, at)
			return r.file.write(b)
		})
		for _, err := range s.Processes(pids) {
			if !yield(err) {
				return
			}
		}
		if err := s.Flush(1); err != nil {
			yield(err)
			return
		}
		r.file.commit()
	}
}
