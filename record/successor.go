package record

import (
	"slices"
	"time"

	"gperf/format"
	"gperf/internal/procfs"
	"gperf/record/perfevent"
	"gperf/record/running"
)

// successor makes the synthesized records of the files after the first one. If all CPUs are recorded, it follows what
// runs through the side band: to read /proc for each file would cost more than the samples.
type successor struct {
	opts     *Options
	file     *file
	describe *describer
	drain    func() error

	machine *running.Machine // nil: the next file needs /proc
	modules []procfs.Module  // when /proc was read
	read    time.Time        // when /proc was read
	records []byte           // of the next file, without machine
	side    []byte           // side band since machine, or since /proc was read
}

// rereadMachine is how long the side band alone describes processes: it has no records of removed mappings, modules
// and cgroups.
const rereadMachine = 30 * time.Minute

// follows reports whether the side band describes all processes.
func (s *successor) follows() bool {
	attrs := s.file.set.Attrs
	track := slices.IndexFunc(attrs, func(a format.Attr) bool { return perfevent.Tracks(&a) })
	return s.opts.Switch.enabled() && s.opts.Target.byCPU() && !s.opts.TailSynth && s.opts.Omit == 0 && track >= 0 &&
		attrs[track].SampleIDSize() == s.describe.idSize()
}

// first writes the synthesized records of the first file, and passes those of processes to learn unless it is nil.
func (s *successor) first(learn func(b []byte, idSize int) error) error {
	if !s.follows() {
		return s.describe.start(learn)
	}
	var all []byte
	err := s.describe.start(func(b []byte, idSize int) error {
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
	s.machine, s.read = running.New(), time.Now()
	s.modules, _ = procfs.Modules()
	s.machine.Apply(b, s.describe.idSize())
}

// drained applies the side band of a drain.
func (s *successor) drained() {
	if s.machine != nil {
		s.machine.Apply(s.side, s.describe.idSize())
		s.side = s.side[:0]
	}
}

// lost makes the next file describe the processes by /proc: side band was lost.
func (s *successor) lost() { s.read = time.Time{} }

// prepare reads /proc for the next file, if that is necessary. It drains the rings meanwhile: the side band since then
// describes processes that start or exit during the switch.
func (s *successor) prepare() error {
	if s.opts.TailSynth || s.machine != nil && time.Since(s.read) < rereadMachine && s.sameModules() {
		return nil
	}
	s.machine, s.records, s.side = nil, s.records[:0], s.side[:0]
	s.file.tally.SideBand = &s.side
	keep := func(b []byte) error { s.records = append(s.records, b...); return nil }
	return s.describe.all(s.opts.Omit, keep, func(int, int) error { return s.drain() })
}

func (s *successor) sameModules() bool {
	l, err := procfs.Modules()
	return err != nil || slices.Equal(l, s.modules)
}

// begin returns the synthesized records of the next file, when the previous one is finished.
func (s *successor) begin() []byte {
	switch {
	case s.machine != nil:
		s.records = s.machine.Append(s.records[:0], s.describe.idSize())
		if s.file.mapped != nil {
			clear(s.file.mapped)
			s.machine.Files(func(name string) { s.file.mapped[name] = true })
		}
		return s.records
	case s.opts.TailSynth:
		return nil
	}
	s.records = append(s.records, s.side...)
	if s.side = s.side[:0]; s.follows() {
		s.learn(s.records)
	} else {
		s.file.tally.SideBand = nil
	}
	return s.records
}
