package record

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/internal/session/track"
	"gperf/record/perfevent"
)

// successor makes the synthesized records of the files after the first one. If all CPUs are recorded, it follows the
// processes through the side band: to read /proc for each file would cost more than the samples.
type successor struct {
	opts     *plan
	file     *file
	describe *describer

	machine *track.Machine  // nil: the next file needs /proc
	modules []procfs.Module // when /proc was read
	read    time.Time       // when /proc was read
	records []byte          // of the next file, without machine
	side    []byte          // side band that is not applied to machine, or since /proc was read
	newest  uint64          // time of the newest side band of the drain before
	refs    []sideRef       // reused
	kept    []byte          // reused
}

// sideRef is a record in successor.side.
type sideRef struct {
	time     uint64
	from, to int
}

// rereadMachine is how long the side band alone describes processes: it has no records of removed mappings, modules
// and cgroups.
const rereadMachine = 30 * time.Minute

// follows reports whether the side band describes all processes.
func (s *successor) follows() bool {
	attrs := s.file.set.Attrs
	track := slices.IndexFunc(attrs, func(a format.Attr) bool { return perfevent.Tracks(&a) })
	side := &s.opts.SideBand
	return s.opts.Output.Switch.enabled() && s.opts.Target.byCPU() && !side.TailSynth && side.Omit == 0 && track >= 0 &&
		attrs[track].SampleIDSize() == s.describe.idSize()
}

// first writes the synthesized records of the first file, and passes the records of processes to learn unless it is
// nil.
func (s *successor) first(ctx context.Context, learn func(b []byte, idSize int) error) error {
	if !s.follows() {
		return s.describe.start(ctx, learn)
	}
	var all []byte
	err := s.describe.start(ctx, func(b []byte, idSize int) error {
		all = append(all, b...)
		if learn != nil {
			return learn(b, idSize)
		}
		return nil
	})
	s.learn(all)
	s.file.tally.SideBand = &s.side
	return err
}

func (s *successor) learn(b []byte) {
	s.machine, s.read = track.New(), time.Now()
	s.modules, _ = procfs.Modules()
	s.machine.Apply(b, s.describe.idSize())
}

// drained applies the side band of a drain. Rings are read one after another: a process may have been forked on one CPU
// and have exited on another. So the records are applied by time, and those newer than the drain before wait for the
// next one, which may have earlier records of another ring.
func (s *successor) drained() {
	if s.machine == nil || len(s.side) == 0 {
		return
	}
	until := s.newest
	if s.sort(); len(s.refs) == 0 {
		return
	}
	s.newest = s.refs[len(s.refs)-1].time
	s.apply(until)
}

// sort finds the records of the side band, by time.
func (s *successor) sort() {
	s.refs = s.refs[:0]
	from := 0
	for rec := range format.Records(s.side) {
		ref := sideRef{from: from, to: from + len(rec)}
		if at := s.file.tally.Layout.TimeFromEnd; at > 0 && at <= len(rec) {
			ref.time = binary.LittleEndian.Uint64(rec[len(rec)-at:])
		}
		s.refs = append(s.refs, ref)
		from = ref.to
	}
	slices.SortStableFunc(s.refs, func(a, b sideRef) int { return cmp.Compare(a.time, b.time) })
}

// apply applies the sorted records up to a time, and keeps the others.
func (s *successor) apply(until uint64) {
	s.kept = s.kept[:0]
	for _, r := range s.refs {
		if r.time <= until {
			s.machine.Apply(s.side[r.from:r.to], s.describe.idSize())
		} else {
			s.kept = append(s.kept, s.side[r.from:r.to]...)
		}
	}
	s.side, s.kept = s.kept, s.side
}

// lost makes the next file describe the processes by /proc: side band was lost.
func (s *successor) lost() { s.read = time.Time{} }

// prepare reads /proc for the next file, if that is necessary. The side band that is drained meanwhile describes
// processes that start or exit during the switch.
func (s *successor) prepare() work {
	if s.opts.SideBand.TailSynth || s.machine != nil && time.Since(s.read) < rereadMachine && s.sameModules() {
		return nothing
	}
	s.machine, s.records, s.side = nil, s.records[:0], s.side[:0]
	s.file.tally.SideBand = &s.side
	keep := func(b []byte) error { s.records = append(s.records, b...); return nil }
	return s.describe.all(s.opts.SideBand.Omit, keep)
}

func (s *successor) sameModules() bool {
	l, err := procfs.Modules()
	return err != nil || slices.Equal(l, s.modules)
}

// begin returns the synthesized records of the next file, when the previous one is finished.
func (s *successor) begin() []byte {
	switch {
	case s.machine != nil:
		s.sort()
		s.apply(math.MaxUint64)
		s.records = s.machine.Append(s.records[:0], s.describe.idSize())
		if s.file.mapped != nil {
			clear(s.file.mapped)
			s.machine.Files(func(name string) { s.file.mapped[name] = true })
		}
		return s.records
	case s.opts.SideBand.TailSynth:
		return nil
	}
	s.sort()
	for _, r := range s.refs {
		s.records = append(s.records, s.side[r.from:r.to]...)
	}
	if s.side = s.side[:0]; s.follows() {
		s.learn(s.records)
	} else {
		s.file.tally.SideBand = nil
	}
	return s.records
}
