package record

import (
	"errors"
	"maps"
	"os"
	"slices"

	"gperf/format"
)

// createOutput creates the file, for its owner's eyes only. What was there
// before is kept as path.old.
func createOutput(path string) (*os.File, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
	case st.Mode().IsRegular():
		if st.Size() > 0 {
			if err := os.Rename(path, path+".old"); err != nil {
				return nil, err
			}
		}
	case st.Mode()&os.ModeCharDevice == 0:
		return nil, errors.New("not a regular file")
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// write appends whole records.
func (r *recorder) write(b []byte) error {
	if err := r.w.Write(b); err != nil {
		return &OutputError{r.opts.Output, err}
	}
	return nil
}

func (r *recorder) synthesize() error {
	tracking := &r.attrs[0]
	for i := range r.attrs {
		if r.attrs[i].Flags&format.FlagMmap != 0 {
			tracking = &r.attrs[i]
		}
	}
	s := &synth{idSize: tracking.SampleIDSize(), data: r.opts.Data, files: r.files,
		buildIDs: tracking.Flags&format.FlagBuildID != 0, known: map[fileID][]byte{}, out: r.write}
	if r.dwarf != nil {
		s.out = func(b []byte) error { r.dwarf.synthesized(b, s.idSize); return r.write(b) }
	}
	visible, err := s.kernel()
	if err != nil {
		return err
	}
	if !visible && r.samplesKernel() {
		r.opts.notice(ErrKernelHidden)
	}
	pids, err := r.running()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := s.process(pid); err != nil {
			return err
		}
	}
	s.buf = format.AppendMark(s.buf, format.TypeFinishedInit)
	if err := s.flush(1); err != nil {
		return err
	}
	r.whole = r.w.Size()
	return nil
}

func (r *recorder) samplesKernel() bool {
	return slices.ContainsFunc(r.attrs, func(a format.Attr) bool { return a.Flags&format.FlagExcludeKernel == 0 })
}

// running returns the processes whose side band the kernel has not told.
func (r *recorder) running() ([]int, error) {
	t := &r.opts.Target
	switch {
	case t.byCPU():
		return processes()
	case t.ownCommand():
		return []int{r.command.proc.Pid}, nil
	}
	pids := slices.Clone(t.PIDs)
	for _, tid := range t.TIDs {
		pid, err := processOf(tid)
		if err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// kernelBuildIDs tells whether the kernel puts build IDs into MMAP2 records.
func (r *recorder) kernelBuildIDs() bool {
	return slices.ContainsFunc(r.attrs, func(a format.Attr) bool { return a.Flags&format.FlagBuildID != 0 })
}

// finish closes the file. What a failed write left of a record is cut off.
func (r *recorder) finish() error {
	err := r.w.Rewind(r.whole)
	if err == nil {
		err = r.w.Close(r.lateSections())
	}
	if err != nil {
		r.w.Rewind(r.whole)
	}
	if e := r.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		return &OutputError{r.opts.Output, err}
	}
	return nil
}

func (r *recorder) lateSections() []format.Section {
	l := []format.Section{format.Uint64Section(format.FeatureSampleTime, r.tally.first, r.tally.last)}
	if r.files != nil {
		l = append(l, buildIDSection(slices.Sorted(maps.Keys(r.files))))
	}
	return l
}
