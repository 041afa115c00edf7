package archive

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"gperf/format"
	"gperf/format/tracepoint"
	"gperf/internal/dso"
	"gperf/internal/session"
)

// Hits are the files and address ranges that a recording's addresses hit.
type Hits struct {
	session *session.Session
	frames  map[*session.Frame]bool
	dsos    map[*session.DSO]*hitFile
	files   map[fileKey]*hitFile
	// perfMaps holds the names of perf maps that may name hit addresses.
	perfMaps map[string]bool
	kernel   bool    // kernel code was hit
	mapped   bool    // files without hits are packed too
	text     []Range // hit kernel functions, as symbol addresses
	memory   []Range // hit functions of kernel, modules and BPF programs, as recorded ips
}

// fileKey identifies a file by build ID or, without one, by path and inode.
type fileKey struct {
	path  string // "" if there is a build ID
	inode dso.Inode
	id    dso.BuildID
}

type hitFile struct {
	DSO
	module bool // of the kernel
}

// Collect walks a session's samples and collects the files that they hit; with mapped,
// also all other mapped files. The result counts the skipped parts of the recording.
func Collect(s *session.Session, mapped bool) (*Hits, format.Skipped, error) {
	frames, skipped, err := hitFrames(s)
	if err != nil {
		return nil, skipped, err
	}
	h := &Hits{
		session:  s,
		frames:   frames,
		dsos:     map[*session.DSO]*hitFile{},
		files:    map[fileKey]*hitFile{},
		perfMaps: map[string]bool{},
		mapped:   mapped,
	}
	for f := range frames {
		if f != nil && f.Map != nil {
			h.add(f)
		}
	}
	if mapped {
		for _, d := range s.DSOs() {
			h.file(d, false)
		}
	}
	return h, skipped, nil
}

// hitFrames returns the frames of all addresses of the samples: of instructions, callers,
// branches, data and tracepoint fields.
func hitFrames(s *session.Session) (map[*session.Frame]bool, format.Skipped, error) {
	frames := map[*session.Frame]bool{}
	fields := make([][]*tracepoint.Field, len(s.File.Attrs))
	for i := range fields {
		if t := s.File.Tracepoint(i); t != nil {
			fields[i] = t.CodeFields()
		}
	}
	skipped, err := s.Walk(session.WalkOptions{Names: true, Branches: true, Data: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			sample := &b.Samples[i]
			frames[sample.Leaf] = true
			frames[sample.Data] = true
			for i := range sample.Chain.Len() {
				f := sample.Chain.Frame(i)
				if f.Return && !frames[f] { // perf's text names the function at the return address
					frames[s.Resolve(sample, f.IP)] = true
				}
				frames[f] = true
			}
			for _, f := range sample.Branches {
				frames[f] = true
			}
			for _, field := range fields[sample.Event] {
				if ip, ok := field.Uint(sample.Raw, s.File.Tracing.Env().Order); ok && ip != 0 {
					frames[s.Resolve(sample, ip)] = true
				}
			}
		}
		b.Release()
		return nil
	})
	return frames, skipped, err
}

// add adds the function of a frame. Without a symbol it adds the code around the address,
// which annotate can decode.
func (h *Hits) add(f *session.Frame) {
	const around = 256
	off := f.MapOff()
	r := Range{Start: max(off, around) - around, End: off + around}
	memory := r
	if sym := f.Sym(); sym != nil {
		r = Range{Start: sym.Start, End: sym.End}
		memory = Range{Start: off - f.Off(), End: off - f.Off() + sym.End - sym.Start}
	}
	if f.Kernel {
		h.kernel = true
		h.memory = append(h.memory, memory)
	}
	switch d := f.Map.DSO; {
	case f.Kernel && d.IsKernel():
		h.text = append(h.text, r)
	case f.Kernel:
		h.file(d, true)
	default:
		if name := f.Map.PerfMap(); name != "" {
			h.perfMaps[name] = true
		}
		file := h.file(d, false)
		file.Hit = append(file.Hit, r)
	}
}

// file returns the file of a DSO, and adds it if it is new.
func (h *Hits) file(d *session.DSO, module bool) *hitFile {
	file := h.dsos[d]
	if file != nil {
		return file
	}
	key, id := h.key(d, module)
	if file = h.files[key]; file == nil {
		file = &hitFile{DSO{ID: id}, module}
		h.files[key] = file
	}
	h.dsos[d] = file
	file.Paths = append(file.Paths, d.Name)
	if d.BuildID.IsZero() && !id.IsZero() {
		file.NoID = append(file.NoID, d.Name)
	}
	return file
}

// key returns the key of a DSO's file, and the file's build ID. If no build ID was recorded,
// it is the one of the file found on this machine.
func (h *Hits) key(d *session.DSO, module bool) (fileKey, dso.BuildID) {
	id := d.BuildID
	if !module {
		id = h.session.Symbols.Locator().OwnID(d.Name, id)
	}
	if !id.IsZero() {
		return fileKey{id: id}, id
	}
	inode, _ := id.Inode()
	inode.Gen, inode.Until = 0, 0 // records made from /proc contain no generation
	return fileKey{path: d.Name, inode: inode}, id
}

// Exclude removes the files whose "BUILD-ID PATH" contains a line of list. It keeps files
// without build IDs, as perf archive does.
func (h *Hits) Exclude(list string) {
	excluded := func(id dso.BuildID, path string) bool {
		text := id.String() + " " + path
		for line := range strings.Lines(list) {
			line = strings.TrimSuffix(line, "\n")
			if line != "" && !id.IsZero() && strings.Contains(text, line) {
				return true
			}
		}
		return false
	}
	maps.DeleteFunc(h.files, func(_ fileKey, f *hitFile) bool {
		return slices.ContainsFunc(f.Paths, func(path string) bool { return excluded(f.ID, path) })
	})
	if id, _, _ := session.RecordedKernel(h.session.File); excluded(id, dso.KernelName) {
		h.kernel, h.mapped = false, false
	}
}

// Pack writes the archive of a recording, whose hits these are. It calls warn with the reason for each missing file.
// noDebug lists the packed files without debug information.
func (h *Hits) Pack(p *Packer, r *Recording, warn func(error)) (noDebug []string, err error) {
	for i, part := range r.Parts {
		name := partName(recording, r.Directory, i)
		if err := p.Writer.Add(name, part.Changed, io.NewSectionReader(part, 0, part.Size)); err != nil {
			return nil, err
		}
	}
	if noDebug, err = h.packFiles(p, warn); err != nil {
		return nil, err
	}
	return noDebug, p.Writer.Close()
}

// packFiles packs the files beside the recording. The error is a *WriteError.
func (h *Hits) packFiles(p *Packer, warn func(error)) (noDebug []string, err error) {
	if h.kernel || h.mapped {
		if err := check(h.packKernel(p), warn); err != nil {
			return nil, err
		}
		if err := check(h.packMemory(p), warn); err != nil {
			return nil, err
		}
	}
	if err := h.packJIT(p, warn); err != nil {
		return nil, err
	}
	for _, f := range h.sorted() {
		debug, err := f.pack(p)
		if err := check(f.withBuildID(err), warn); err != nil {
			return nil, err
		}
		if debug != nil && err == nil {
			noDebug = append(noDebug, f.Paths[0])
		}
	}
	if p.NoDebug {
		return noDebug, nil
	}
	return noDebug, h.packLines(p)
}

// packLines packs the source lines of the hit addresses, so that reports need not read the debug information.
func (h *Hits) packLines(p *Packer) error {
	session.LookUpCalls(func(yield func(*session.Frame) bool) {
		for f := range h.frames {
			if f != nil && !yield(f) {
				return
			}
		}
	})
	for name, file := range h.session.Symbols.PackedLines() {
		if err := p.Writer.Add(name, time.Time{}, bytes.NewReader(file)); err != nil {
			return &WriteError{err}
		}
	}
	return nil
}

// PackPerf packs the files with build IDs, and returns the number of packed files. It calls warn with the reason
// for each missing file. The error is a *WriteError.
func (h *Hits) PackPerf(w *PerfWriter, warn func(error)) (n int, err error) {
	count := func(err error) error {
		if err == nil {
			n++
		}
		return check(err, warn)
	}
	if id, _, _ := session.RecordedKernel(h.session.File); h.kernel && !id.IsZero() {
		if err := count(w.AddKernel(id)); err != nil {
			return n, err
		}
	}
	for _, f := range h.sorted() {
		if f.ID.IsZero() || f.module {
			continue
		}
		if err := count(f.withBuildID(w.AddDSO(f.DSO))); err != nil {
			return n, err
		}
	}
	return n, nil
}

// check returns an error of writing, and passes others to warn.
func check(err error, warn func(error)) error {
	if isWriteError(err) {
		return err
	}
	if err != nil {
		warn(err)
	}
	return nil
}

func isWriteError(err error) bool {
	var write *WriteError
	return errors.As(err, &write)
}

// sorted returns the files ordered by path.
func (h *Hits) sorted() []*hitFile {
	for _, f := range h.files {
		slices.Sort(f.Paths)
		slices.Sort(f.NoID)
	}
	return slices.SortedFunc(maps.Values(h.files), func(a, b *hitFile) int {
		return cmp.Or(slices.Compare(a.Paths, b.Paths), cmp.Compare(a.ID.String(), b.ID.String()))
	})
}

// packKernel packs the kernel's symbols.
func (h *Hits) packKernel(p *Packer) error {
	id, _, _ := session.RecordedKernel(h.session.File)
	_, err := p.AddKernel(id, h.text)
	if err != nil && !isWriteError(err) {
		return cmp.Or(h.session.Symbols.KernelProblem(), err)
	}
	return err
}

// packMemory packs kernel code from memory, which may be in no file on the reading machine. Only privileged users
// can read it, and only annotate uses it.
func (h *Hits) packMemory(p *Packer) error {
	machine, l := h.runningCode()
	if len(l) == 0 {
		return nil
	}
	id, _, _ := session.RecordedKernel(h.session.File)
	return p.AddKernelText(id, machine, l)
}

// packJIT packs the perf maps and jitdumps of hit processes. Few processes write such files.
func (h *Hits) packJIT(p *Packer, warn func(error)) error {
	dumps := h.session.JITDumps()
	for name := range h.perfMaps {
		if pid, ok := dso.PerfMapPID(name); ok {
			dumps = append(dumps, session.JITDump{PID: pid, Path: dso.PerfMapPattern})
		}
	}
	slices.SortFunc(dumps, func(a, b session.JITDump) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Path, b.Path))
	})
	for _, d := range dumps {
		err := p.AddFileOf(d.PID, d.Path)
		if errors.Is(err, dso.ErrNoFile) {
			continue
		}
		if err := check(err, warn); err != nil {
			return err
		}
	}
	return nil
}

// pack packs the files of a DSO, if there are any.
func (f *hitFile) pack(p *Packer) (debug, err error) {
	path := f.Paths[0]
	switch kind := dso.KindOf(path); {
	case f.module:
		// The kernel's symbols include modules; the module's file is only needed for lines.
		if _, err := p.AddDSO(f.DSO); isWriteError(err) {
			return nil, err
		}
		return nil, nil
	case kind.HasPath() || path == dso.VDSO || kind == dso.KindFunctions:
		debug, err := p.AddDSO(f.DSO)
		if kind == dso.KindMemfd && errors.Is(err, dso.ErrNoFile) {
			return nil, nil // most memfds are not programs
		}
		return debug, err
	}
	return nil, nil
}

// withBuildID adds the build ID of f to an error, so that the user can find the file elsewhere.
func (f *hitFile) withBuildID(err error) error {
	if err == nil || f.ID.IsZero() || isWriteError(err) {
		return err
	}
	return fmt.Errorf("build ID %s: %w", f.ID, err)
}
