package record

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gperf/format"
)

// pipeName selects standard output, in pipe mode.
const pipeName = "-"

func (r *recorder) pipe() bool { return r.opts.Output == pipeName }

// output is the destination of the recorder's records.
type output struct {
	file      *os.File       // nil: a pipe
	w         *format.Writer // nil: no file is open
	z         *compressing   // nil without
	whole     int64          // size of the file up to the last complete record, without z
	described bool           // the synthesized records are written
	data      bool           // other records are written as well
}

// create creates the output, and writes everything that comes before the records.
func (r *recorder) create() error {
	early, err := earlySections(r.opts, r.events, r.fileAttrs())
	if err != nil {
		return err
	}
	if err := r.createWith(early); err != nil {
		return &OutputError{r.opts.Output, err}
	}
	return nil
}

func (r *recorder) createWith(early []format.Section) (err error) {
	if level := r.opts.Compress; level > 0 {
		early = append(early, format.CompressedSection(level, 0))
	}
	r.output = output{}
	var w *format.Writer
	if r.pipe() {
		w, err = format.NewPipeWriter(os.Stdout, r.fileAttrs(), early)
	} else {
		if r.file, err = createOutput(r.opts.Output); err != nil {
			return err
		}
		w, err = format.NewWriter(r.file, r.fileAttrs(), early)
	}
	if err == nil && r.opts.Compress > 0 {
		r.z, err = newCompressing(w, r.opts.compressedType(), r.opts.Compress, r.tally, r.signal)
	}
	if err != nil {
		r.file.Close()
		return err
	}
	r.w = w
	r.whole = w.Size()
	return nil
}

// compressedType returns the type of compressed records.
func (o *Options) compressedType() format.Type {
	if o.Compressed2 {
		return format.TypeCompressed2
	}
	return format.TypeCompressed
}

// createOutput creates the file, readable by its owner only. It renames an existing file to
// path.old.
func createOutput(path string) (*os.File, error) {
	if err := keepOld(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// keepOld renames the recording at path, a file or a directory, to path.old.
func keepOld(path string) error {
	old := path + ".old"
	st, err := os.Stat(path)
	switch {
	case err != nil || st.Mode().IsRegular() && st.Size() == 0:
		return nil
	case st.IsDir() && isRecording(path), st.Mode().IsRegular():
		if err := removeRecording(old); err != nil {
			return err
		}
		return os.Rename(path, old)
	case st.Mode()&os.ModeCharDevice != 0:
		return nil
	}
	return errors.New("neither a regular file nor the directory of a recording")
}

// isRecording reports whether a directory is a recording.
func isRecording(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, dirData))
	return err == nil && st.Mode().IsRegular()
}

// removeRecording removes the directory of a recording, unless it contains other files.
func removeRecording(dir string) error {
	if !isRecording(dir) {
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == KcoreDir:
			err = os.RemoveAll(path)
		case e.Name() == dirData || strings.HasPrefix(e.Name(), dirData+"."):
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// write appends complete records.
func (r *recorder) write(b []byte) (err error) {
	r.data = r.described
	if r.z != nil {
		err = r.z.write(b)
	} else {
		err = r.w.Write(b)
	}
	if err != nil {
		return &OutputError{r.opts.Output, err}
	}
	return nil
}

// commit marks all data written so far as complete, counted records.
func (r *recorder) commit() {
	if r.z != nil {
		t := r.tally
		t.samples = r.written()
		r.z.commit(t)
	} else {
		r.whole = r.w.Size()
	}
}

// written returns how many of the counted samples are not held.
func (r *recorder) written() uint64 {
	if r.dwarf == nil {
		return r.tally.samples
	}
	return r.tally.samples - r.dwarf.waiting
}

// size returns the number of bytes written; with compression, a little less.
func (r *recorder) size() int64 {
	if r.z != nil {
		return r.z.size.Load()
	}
	return r.w.Size()
}

// full reports whether all files together have reached MaxSize.
func (r *recorder) full() bool {
	if n := r.sum.Bytes + r.size(); r.opts.MaxSize > 0 && n >= r.opts.MaxSize {
		r.sum.Full = n
		return true
	}
	return false
}

// newSynth returns a synth that passes its records, except the omitted kinds, to out.
func (r *recorder) newSynth(omit Synth, out func([]byte) error) *synth {
	return &synth{omit: omit, spaces: r.opts.Namespaces, idSize: r.sideBandIDSize(), data: r.opts.DataMmap || r.opts.dumpsStacks(), files: r.files, buildIDs: r.kernelBuildIDs(), known: map[fileID][]byte{}, out: out}
}

// describe passes synthesized records of everything that runs, except the omitted kinds, to
// out. It calls between after each process, with the number of processes done.
func (r *recorder) describe(omit Synth, out func([]byte) error, between func(n, of int) error) error {
	s := r.newSynth(omit, out)
	visible, err := s.kernel()
	if err != nil {
		return err
	}
	if !visible && r.samplesKernel() && r.ended == 0 {
		r.opts.notice(ErrKernelHidden)
	}
	if r.opts.AllCgroups && omit&SynthCgroup == 0 {
		if err := s.cgroups(); err != nil {
			return err
		}
	}
	var pids []int
	if omit&SynthTask == 0 {
		if pids, err = r.running(); err != nil {
			return err
		}
	}
	for i, pid := range pids {
		if err := s.process(pid); err != nil {
			return err
		}
		if err := between(i+1, len(pids)); err != nil {
			return err
		}
	}
	if r.sum.Command != nil && omit&SynthTask == 0 { // it has exited
		pid, parent := int32(r.command.proc.Pid), int32(os.Getpid())
		s.thread(format.Fork{PID: pid, TID: pid, PPID: parent, PTID: parent}, r.command.comm())
	}
	if s.denied > 0 && r.ended == 0 && !capable(unix.CAP_SYS_PTRACE) {
		r.opts.notice(&MapsHiddenError{s.denied})
	}
	return s.flush(1)
}

// sideBandIDSize returns the size of the sample id at the end of the recorder's own records.
// The id in it is 0, and so readers assign these records to the first event.
func (r *recorder) sideBandIDSize() int { return r.attrs[0].SampleIDSize() }

// synthesize writes the synthesized records, unless they come at the end. BPF needs them in
// any case.
func (r *recorder) synthesize() error {
	out := r.write
	between := func(n, of int) error { r.progress("reading processes", n, of); return nil }
	if r.dwarf != nil {
		idSize := r.sideBandIDSize()
		learn := func(b []byte) error { r.dwarf.synthesized(b, idSize); return nil }
		if r.opts.Omit == 0 && !r.opts.TailSynth {
			out = func(b []byte) error { learn(b); return r.write(b) }
		} else if err := r.describe(0, learn, between); err != nil {
			return err
		}
	}
	if !r.opts.TailSynth {
		if err := r.describe(r.opts.Omit, out, between); err != nil {
			return err
		}
	}
	return r.finishInit()
}

// tail writes the records that come after the drained ones: of rings that are not drained,
// and the synthesized ones. These come last, because synthesizing takes time, during which
// the rings still fill.
func (r *recorder) tail() error {
	if !r.opts.TailSynth {
		return nil
	}
	if r.opts.Overwrite {
		if err := r.snapshot(); err != nil {
			return err
		}
	}
	if err := r.describe(r.opts.Omit, r.write, func(int, int) error { return nil }); err != nil {
		return err
	}
	r.commit()
	return nil
}

// finishInit writes PERF_RECORD_FINISHED_INIT: the synthesized records are complete.
func (r *recorder) finishInit() error {
	if err := r.write(format.AppendMark(nil, format.TypeFinishedInit)); err != nil {
		return err
	}
	r.commit()
	r.described = true
	return nil
}

func (r *recorder) samplesKernel() bool {
	return slices.ContainsFunc(r.attrs, func(a format.Attr) bool { return a.Flags&format.FlagExcludeKernel == 0 })
}

// running returns the processes of which the kernel has written no side band.
func (r *recorder) running() ([]int, error) {
	t := &r.opts.Target
	switch {
	case t.byCPU():
		return processes()
	case t.ownCommand():
		return r.withForked([]int{r.command.proc.Pid}), nil
	}
	pids := slices.Clone(t.PIDs)
	for _, uid := range t.UIDs {
		pids = append(pids, processesOf(uid)...)
	}
	for _, tid := range t.TIDs {
		pid, err := processOf(tid)
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return r.withForked(pids), nil
}

// withForked adds the processes that recorded processes have forked, if these are recorded
// too, and returns each pid once.
func (r *recorder) withForked(pids []int) []int {
	for pid := range r.tally.forked {
		pids = append(pids, int(pid))
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// kernelBuildIDs reports whether the kernel puts build IDs into MMAP2 records.
func (r *recorder) kernelBuildIDs() bool {
	return slices.ContainsFunc(r.attrs, func(a format.Attr) bool { return a.Flags&format.FlagBuildID != 0 })
}

// finish closes the file, and adds its figures to the summary. It truncates a partial record
// of a failed write. It returns the file's name if that includes a time, "" otherwise.
func (r *recorder) finish() (name string, err error) {
	samples := r.written()
	if r.z != nil {
		var t tally
		if r.whole, t, err = r.z.close(r.progress); err != nil {
			r.tally, samples = t, t.samples
		}
		before, after := r.z.c.Sizes()
		r.sum.Original += before
		r.sum.Compressed += after
	}
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	e := r.w.Rewind(r.whole)
	if e == nil {
		e = r.w.Close(r.lateSections())
	}
	if e != nil {
		r.w.Rewind(r.whole)
	}
	keep(e)
	bytes := r.w.Size()
	if r.file != nil {
		if e := r.keepName(); e != nil {
			keep(e)
			bytes, samples = 0, 0
		}
		keep(r.file.Close())
	}
	if r.file != nil && (r.opts.Timestamp || r.opts.Switch.enabled()) {
		name, e = timestamp(r.sum.Path)
		keep(e)
	}
	r.sum.Bytes += bytes
	r.sum.Samples += samples
	r.tally.samples -= samples
	r.tally.first, r.tally.last = 0, 0
	r.ended++
	r.output = output{}
	if err != nil {
		return name, &OutputError{r.opts.Output, err}
	}
	return name, nil
}

func (r *recorder) lateSections() []format.Section {
	l := []format.Section{format.Uint64Section(format.FeatureSampleTime, r.tally.first, r.tally.last)}
	if r.z != nil {
		l = append(l, r.z.c.Section())
	}
	if r.files != nil {
		l = append(l, buildIDSection(slices.Sorted(maps.Keys(r.files))))
	}
	return l
}
