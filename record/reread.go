package record

import (
	"time"

	"gperf/format"
	"gperf/record/perfevent"
	"gperf/record/synth"
)

// When side-band records are lost, the file lacks processes that started meanwhile, and their
// mappings. The recorder then reads /proc again, and writes records with the time of the
// loss, so that later samples can be symbolized.

// rereading is the state of reading /proc again.
type rereading struct {
	lost    uint64    // lost records of all kinds at the last check
	side    uint64    // lost records at the last check, of events that write side band
	next    time.Time // earliest time of the next reading
	running bool      // no round is closed while it is set
	// closed are the times of the newest samples when the last two rounds were closed. At the
	// end of a round, readers process the records up to the end of the previous one.
	closed [2]uint64
}

// rereadTime is the minimum interval between two readings of /proc. Reading may take at most
// one part in rereadShare of the recorder's time.
const (
	rereadTime  = time.Second
	rereadShare = 10
)

// reread reads /proc again if side band was lost since the last time. At the end of the
// recording it does not wait for the interval.
func (r *recorder) reread(end bool) error {
	if r.tally.Lost == r.rereading.lost || !end && time.Now().Before(r.rereading.next) || !r.mayReread() {
		return nil
	}
	r.rereading.lost = r.tally.Lost
	side := r.lostSideBand()
	if side == r.rereading.side { // only samples were lost
		r.rereading.next = time.Now().Add(rereadTime / rereadShare)
		return nil
	}
	r.rereading.side = side
	start := time.Now()
	at := r.tally.LostAt
	if at < r.rereading.closed[0] { // readers are past this time
		at = r.rereading.closed[1]
	}
	err := r.describeAgain(at)
	took := time.Since(start)
	r.rereading.next = time.Now().Add(max(rereadTime, rereadShare*took))
	return err
}

// mayReread reports whether records about processes can be inserted by their time, before the
// end of the file.
func (r *recorder) mayReread() bool {
	return r.described && r.tally.Layout.Time >= 0 && !r.opts.TailSynth && r.opts.Omit&synth.Task == 0 && r.set.Attrs[0].Flags&format.FlagSampleIDAll != 0
}

// lostSideBand returns the number of lost records of events that write side band; of all
// events before Linux 6.0, which does not count per event.
func (r *recorder) lostSideBand() (n uint64) {
	for i := range r.set.Counters {
		c := &r.set.Counters[i]
		a := &r.set.Attrs[c.Event]
		if !perfevent.Tracks(a) {
			continue
		}
		if a.ReadFormat&format.ReadLost == 0 {
			return r.tally.Lost
		}
		if lost, err := r.set.Lost(c); err == nil { // else it is read again at the end
			n += lost
		}
	}
	return n
}

// describeAgain writes synthesized records of the recorded processes, with a time.
func (r *recorder) describeAgain(at uint64) error {
	pids, err := r.running()
	if err != nil {
		return err
	}
	if !r.opts.Target.byCPU() {
		pids = synth.WithDescendants(pids)
	}
	r.rereading.running = true
	defer func() { r.rereading.running = false }()
	idSize := r.sideBandIDSize()
	s := r.newSynthesizer(r.opts.Omit, func(b []byte) error {
		synth.Stamp(b, idSize, at)
		return r.write(b)
	})
	for _, pid := range pids {
		if err := s.Process(pid); err != nil {
			return err
		}
		if _, err := r.drain(); err != nil {
			return err
		}
	}
	if err := s.Flush(1); err != nil {
		return err
	}
	r.commit()
	return nil
}
