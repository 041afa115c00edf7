package stacks

import (
	"time"

	"gperf/record/synth"
)

// Drain passes the rings' records to write, and returns how many bytes they were. The side
// band comes first: it says which mappings a sample's addresses belong to. Then records are
// merged. BPF gets the tables and mappings that it missed, and only then stacks that it could
// not walk are walked in Go: until BPF knows a process, each sample of it is one of these.
func (r *Recorder) Drain(write func([]byte) error) (total int, err error) {
	total = r.merge()
	if len(r.merged.moved) > 0 {
		// The samples' stacks may have been written after the heads of these rings were read.
		total += r.merge()
		r.merged.joinMoved(r.mergers)
	}
	r.merged.Complete()
	r.resolver.place()
	built := r.tables.loadBuilt()
	now := time.Now()
	r.tables.followJIT(now)
	r.procs.tracker.holdGenerated(r.tables.builder.keeper, now)
	r.procs.update()
	r.tables.removeReplaced()
	r.resolver.resolve()
	r.resolver.retry(built)
	if dropped := r.tables.prune(time.Now(), r.resolver.deferred.queue); len(dropped) > 0 {
		r.resolver.walker.Forget(dropped)
	}
	if r.names != nil {
		r.names.describe(&r.merged, r.like.SampleIDSize())
	}
	if err := r.merged.Write(r.mergers[0].tally, write); err != nil {
		return 0, err
	}
	return total, nil
}

// merge merges the records of all rings, and returns how many bytes they were.
func (r *Recorder) merge() (total int) {
	for i, n := range r.mergers {
		r.heads[i] = n.Ring.Written()
	}
	copies := r.side.collect(r.mergers, r.heads)
	for i, n := range r.mergers {
		size := int(r.heads[i] - n.Ring.Read)
		if size == 0 {
			continue
		}
		total += size
		n.Merge(&r.merged, r.heads[i])
		// The ring's data is copied: the next samples need not wait for the walks and tables
		// below.
		n.Ring.Release(r.heads[i])
		r.allowCopies(n)
	}
	for i := range copies {
		r.merged.Records = synth.AppendAt(r.merged.Records, &copies[i], r.like.SampleIDSize())
	}
	return total
}

// Pending returns the number of samples that wait for unwind tables.
func (r *Recorder) Pending() int { return r.resolver.deferred.n }

// Flush writes the samples of before a time that wait for unwind tables: when these are built, or the samples
// waited for too long.
func (r *Recorder) Flush(before time.Time, write func([]byte) error) error {
	of := r.resolver.deferred.n
	for r.resolver.deferred.before(before) && !r.opts.isHurried() {
		time.Sleep(time.Millisecond)
		if _, err := r.Drain(write); err != nil {
			return err
		}
		r.opts.Progress("unwinding held samples", of-r.resolver.deferred.n, of)
	}
	return nil
}
