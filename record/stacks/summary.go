package stacks

import (
	"fmt"

	"gperf/bpf"
)

// Summary counts how the walks of user stacks ended.
type Summary struct {
	Complete uint64              // reached the outermost frame
	None     uint64              // no user stack: kernel threads, processes in exec or exit
	Early    [bpf.NumEnds]uint64 // ended before, by reason
	Copied   uint64              // of all these, walked in user space
	Missing  uint64              // samples without a stack from BPF
	Missed   uint64              // samples lost because another BPF program was running
	Tables   uint64              // unwind tables built
	Failed   uint64              // files without a usable table
	// Contested is the names of files with one build ID and different unwind information.
	Contested []string
	// Incomplete counts incomplete stacks by cause and place, the highest count first.
	Incomplete []Incomplete
	// Nameless is the sampled Java processes that wrote no names for generated code.
	Nameless []Nameless
	// Interpreted counts the frames of interpreters.
	Interpreted InterpretedCounts
}

// Summary returns the counts, when all samples are written.
func (r *Recorder) Summary() *Summary {
	st := r.bpf.Stats()
	s := &Summary{Early: r.merged.ends, Missing: r.merged.single, Missed: st.Missed,
		Tables: r.tables.made, Failed: r.tables.failed, Contested: r.tables.contested,
		Incomplete: r.resolver.incomplete.list(),
		Nameless:   r.procs.namelessJava()}
	if r.names != nil {
		s.Interpreted = r.names.counts()
	}
	s.Complete, s.Early[bpf.EndEntry] = s.Early[bpf.EndEntry], 0
	s.None, s.Early[bpf.EndNoUser] = s.Early[bpf.EndNoUser], 0
	for end, n := range r.resolver.copied {
		s.Copied += n
		if n > 0 {
			r.opts.Verbose(fmt.Sprintf("%d stacks unwound in user space: %v", n, bpf.End(end)))
		}
	}
	r.opts.Verbose(fmt.Sprintf("copies of stacks: %d bytes", r.resolver.copiedBytes))
	r.opts.Verbose(fmt.Sprintf("%d stacks walked without a sample: "+
		"before the start, or excluded by filters and cgroups", r.merged.unused))
	if st.Runs > 0 {
		r.opts.Verbose(st.String())
	}
	return s
}
