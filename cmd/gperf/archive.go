package main

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gperf/format/tracepoint"
	"gperf/internal/archive"
	"gperf/internal/dso"
	"gperf/internal/session"
	"gperf/report/annotate"
	"gperf/symbolize/jit"
)

// archiveFlags holds the flags of `gperf archive`.
type archiveFlags struct {
	input   inputFlags
	output  string
	mapped  bool
	noDebug bool
	whole   bool
	exclude string
	// Flags for the format of perf archive:
	perf   bool
	all    bool // with --perf: include the recording
	unpack bool
}

func (o *archiveFlags) addTo(c *cobra.Command) {
	addFlags(c, "Input", func(s *pflag.FlagSet) {
		s.StringArrayVarP(&o.input.paths, "input", "i", nil, inputUsage)
		o.input.files.force = addForce(s)
	})
	addFlags(c, "Symbols", o.input.files.add)
	addFlags(c, "Archive", o.add)
}

func (o *archiveFlags) add(s *pflag.FlagSet) {
	s.StringVarP(&o.output, "output", "o", "", "write this `file` (default INPUT.zip); - is stdout")
	s.BoolVar(&o.mapped, "mapped", false, "pack mapped files without samples, too")
	s.BoolVar(&o.noDebug, "no-debug", false, "omit debug information, for source lines")
	s.BoolVar(&o.whole, "whole", false, "pack complete files, with all code and data")
	s.BoolVar(&o.perf, "perf", false, "write perf archive's format (.tar.bz2, -o .tar)")
	s.BoolVar(&o.all, "all", false, "with --perf: include the recording")
	s.BoolVar(&o.unpack, "unpack", false, "unpack a file of perf archive to ~/.debug")
	s.StringVar(&o.exclude, "exclude-buildids", "", "exclude files that match a line of this `file`")
}

func archiveCommand() *cobra.Command {
	var o archiveFlags
	c := readCommand(groupFiles, "archive", "pack a recording and its symbols for other machines")
	o.addTo(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) }
	return c
}

func (o *archiveFlags) run(stdout, stderr io.Writer) error {
	if o.unpack {
		return o.runUnpack(stdout)
	}
	o.input.guests = true
	in, err := o.input.open(stderr)
	if err != nil {
		return err
	}
	defer in.Close()
	if len(in.Parts) == 0 {
		return fmt.Errorf("%s is a pipe and can be read only once: write it to a file first", in.Path)
	}
	hit, err := in.hits(stderr, o.mapped)
	if err == nil && o.exclude != "" {
		err = hit.leaveOut(in, o.exclude)
	}
	if err != nil {
		return err
	}
	if o.perf {
		return o.runPerf(in, hit, stdout, stderr)
	}
	name := cmp.Or(o.output, filepath.Clean(in.Path)+".zip")
	n, err := writeWhole(name, stdout, func(w io.Writer) error { return o.pack(w, in, hit, stderr) })
	if err == nil && name != "-" {
		fmt.Fprintf(stderr, "[ gperf archive: wrote %.3f MB to %s ]\n", float64(n)/1e6, name)
	}
	return err
}

// pack writes the archive.
func (o *archiveFlags) pack(out io.Writer, in *input, hit *hits, stderr io.Writer) error {
	p := &archive.Packer{Writer: archive.NewWriter(out), Locator: in.session.Symbols.Locator(), NoDebug: o.noDebug, Whole: o.whole}
	for i, part := range in.Parts {
		if err := p.AddRecording(i, in.Directory, part); err != nil {
			return err
		}
	}
	var noDebug []string
	if hit.kernel || o.mapped && !hit.noKernel {
		err := hit.packKernel(p, in)
		if failed(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err)
		}
		if err = hit.packMemory(p, in); failed(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err)
		}
	}
	if err := hit.packJIT(p, in, stderr); err != nil {
		return err
	}
	for _, d := range hit.sorted() {
		debug, err := d.pack(p)
		if failed(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", d.told(err))
		}
		if debug != nil && err == nil {
			noDebug = append(noDebug, d.Paths[0])
		}
	}
	if len(noDebug) > 0 {
		fmt.Fprintf(stderr, "gperf archive: no debug information for %s: no source lines and inline frames\n", some(noDebug, 5))
	}
	return p.Close()
}

// failed reports whether writing the archive failed.
func failed(err error) bool {
	var write *archive.WriteError
	return errors.As(err, &write)
}

// some joins the first n elements of a list and counts the rest.
func some(l []string, n int) string {
	if len(l) <= n {
		return strings.Join(l, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(l[:n], ", "), len(l)-n)
}

// writeWhole writes a temporary file and renames it when it is complete. It writes directly
// to stdout (name "-") and to files that are not regular. It returns the number of bytes
// written.
func writeWhole(name string, stdout io.Writer, write func(io.Writer) error) (int64, error) {
	if name == "-" {
		return writeTo(stdout, write)
	}
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return 0, err
		}
		n, err := writeTo(f, write)
		return n, errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".gperf-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // fails after the rename
	n, err := writeTo(f, write)
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, os.Rename(f.Name(), name)
}

// writeTo calls write and returns the number of bytes written. An error of w has precedence
// over the error that write derives from it.
func writeTo(w io.Writer, write func(io.Writer) error) (int64, error) {
	c := &counting{w: w}
	err := write(c)
	return c.n, cmp.Or(c.err, err)
}

// counting counts the bytes written to w and keeps the first error.
type counting struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = cmp.Or(c.err, err)
	return n, err
}

// hits holds the files and address ranges that a recording's addresses hit.
type hits struct {
	locator *dso.Locator
	dsos    map[*session.DSO]*hitDSO
	files   map[hitKey]*hitDSO
	// perfMaps holds the names of perf maps that may name hit addresses.
	perfMaps map[string]bool
	kernel   bool            // kernel code was hit
	noKernel bool            // --exclude-buildids excludes the kernel
	text     []archive.Range // hit kernel functions, as symbol addresses
	memory   []archive.Range // hit functions of kernel, modules and BPF programs, as recorded ips
}

// hitKey identifies a file by its build ID or, without one, by its path.
type hitKey struct {
	path string // "" if there is a build ID
	id   dso.BuildID
}

type hitDSO struct {
	archive.DSO
	kernel bool // a module
}

// key returns the file of a DSO. If no build ID was recorded, it uses the one of the file
// found on this machine.
func (h *hits) key(d *session.DSO, kernel bool) hitKey {
	id := d.BuildID
	if id.IsZero() && !kernel {
		id = h.locator.OwnID(d.Name)
	}
	if id.IsZero() {
		return hitKey{path: d.Name}
	}
	return hitKey{id: id}
}

// hits collects the hit files and ranges; with mapped, also all mapped files.
func (in *input) hits(stderr io.Writer, mapped bool) (*hits, error) {
	seen := map[*session.Frame]bool{}
	fields := make([][]*tracepoint.Field, len(in.File.Attrs))
	for i := range fields {
		if t := in.File.Tracepoint(i); t != nil {
			fields[i] = annotate.CodeFields(t)
		}
	}
	skipped, err := in.session.Walk(session.WalkOptions{Names: true, Branches: true, Data: true}, func(b *session.Batch) error {
		for i := range b.Samples {
			s := &b.Samples[i]
			seen[s.Leaf] = true
			seen[s.Data] = true
			for _, list := range [...][]*session.Frame{s.Kernel, s.User, s.Branches} {
				for _, f := range list {
					seen[f] = true
				}
			}
			for _, fd := range fields[s.Event] {
				if ip, ok := fd.Uint(s.Raw, in.File.Tracing.Env().Order); ok && ip != 0 {
					seen[in.session.Resolve(s, ip)] = true
				}
			}
		}
		b.Release()
		return nil
	})
	in.warnSkipped(stderr, skipped)
	if err != nil {
		return nil, err
	}
	h := &hits{locator: in.session.Symbols.Locator(), dsos: map[*session.DSO]*hitDSO{}, files: map[hitKey]*hitDSO{}, perfMaps: map[string]bool{}}
	for f := range seen {
		if f != nil && f.Map != nil {
			h.add(f)
		}
	}
	if mapped {
		for _, d := range in.session.DSOs() {
			h.dso(d, false)
		}
	}
	return h, nil
}

func (h *hits) add(f *session.Frame) {
	d := f.Map.DSO
	// Without a symbol, the surrounding code may help.
	const around = 256
	off := f.MapOff()
	r := archive.Range{Start: max(off, around) - around, End: off + around}
	memory := r
	if sym := f.Sym(); sym != nil {
		r = archive.Range{Start: sym.Start, End: sym.End}
		memory = archive.Range{Start: off - f.Off(), End: off - f.Off() + sym.End - sym.Start}
	}
	if f.Kernel {
		h.memory = append(h.memory, memory)
	}
	switch {
	case f.Kernel && d.IsKernel():
		h.kernel = true
		h.text = append(h.text, r)
	case f.Kernel:
		h.kernel = true
		h.dso(d, true)
	default:
		if name := f.Map.PerfMap(); name != "" {
			h.perfMaps[name] = true
		}
		e := h.dso(d, false)
		e.Hit = append(e.Hit, r)
	}
}

func (h *hits) dso(d *session.DSO, kernel bool) *hitDSO {
	e := h.dsos[d]
	if e != nil {
		return e
	}
	key := h.key(d, kernel)
	if e = h.files[key]; e == nil {
		e = &hitDSO{archive.DSO{ID: key.id}, kernel}
		h.files[key] = e
	}
	h.dsos[d] = e
	e.Paths = append(e.Paths, d.Name)
	if d.BuildID.IsZero() && !key.id.IsZero() {
		e.NoID = append(e.NoID, d.Name)
	}
	return e
}

// leaveOut removes the files whose "BUILD-ID PATH" contains a line of the named file.
func (h *hits) leaveOut(in *input, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	out := func(id dso.BuildID, path string) bool {
		text := id.String() + " " + path
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSuffix(line, "\n"); line != "" && !id.IsZero() && strings.Contains(text, line) {
				return true
			}
		}
		return false
	}
	maps.DeleteFunc(h.files, func(_ hitKey, d *hitDSO) bool {
		return slices.ContainsFunc(d.Paths, func(path string) bool { return out(d.ID, path) })
	})
	if id, _, _ := session.RecordedKernel(in.File); out(id, dso.KernelName) {
		h.kernel, h.noKernel = false, true
	}
	return nil
}

// sorted returns the files ordered by path.
func (h *hits) sorted() []*hitDSO {
	for _, d := range h.files {
		slices.Sort(d.Paths)
		slices.Sort(d.NoID)
	}
	return slices.SortedFunc(maps.Values(h.files), func(a, b *hitDSO) int {
		return cmp.Or(slices.Compare(a.Paths, b.Paths), cmp.Compare(a.ID.String(), b.ID.String()))
	})
}

// packKernel packs the kernel's symbols.
func (h *hits) packKernel(p *archive.Packer, in *input) error {
	id, _, _ := session.RecordedKernel(in.File)
	_, err := p.AddKernel(id, h.text)
	if err != nil && !failed(err) {
		return cmp.Or(in.session.Symbols.KernelProblem(), err)
	}
	return err
}

// packMemory packs kernel code from memory, for which the reading machine may have no file.
// Only privileged users can read it, and only annotate uses it.
func (h *hits) packMemory(p *archive.Packer, in *input) error {
	var machine elf.Machine
	var l []archive.Text
	slices.SortFunc(h.memory, func(a, b archive.Range) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	for _, r := range slices.Compact(h.memory) {
		c, err := in.session.Symbols.RunningCode(r.Start, r.End)
		if err != nil {
			continue
		}
		machine = c.Machine
		l = append(l, archive.Text{Addr: c.Addr, Bytes: c.Bytes})
	}
	if len(l) == 0 {
		return nil
	}
	id, _, _ := session.RecordedKernel(in.File)
	return p.AddKernelText(id, machine, l)
}

// packJIT packs the perf maps and jitdumps of hit processes. Few processes have them.
func (h *hits) packJIT(p *archive.Packer, in *input, stderr io.Writer) error {
	dumps := in.session.JITDumps()
	for name := range h.perfMaps {
		if pid, ok := jit.PerfMapPID(name); ok {
			dumps = append(dumps, session.JITDump{PID: pid, Path: jit.PerfMapPattern})
		}
	}
	slices.SortFunc(dumps, func(a, b session.JITDump) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Path, b.Path))
	})
	for _, d := range dumps {
		err := p.AddFileOf(d.PID, d.Path)
		if failed(err) {
			return err
		}
		if err != nil && !errors.Is(err, dso.ErrNoFile) {
			fmt.Fprintf(stderr, "gperf archive: not packed: %v\n", err)
		}
	}
	return nil
}

// pack packs the files of a DSO, if it has any.
func (d *hitDSO) pack(p *archive.Packer) (debug, err error) {
	switch path := d.Paths[0]; {
	case d.kernel:
		// The kernel's symbols include modules; the module's file is only needed for lines.
		if _, err := p.AddDSO(d.DSO); failed(err) {
			return nil, err
		}
		return nil, nil
	case isFile(path) || path == dso.VDSO:
		debug, err := p.AddDSO(d.DSO)
		if strings.HasPrefix(path, "/memfd:") && errors.Is(err, dso.ErrNoFile) {
			return nil, nil // most memfds are not programs
		}
		return debug, err
	}
	return nil, nil
}

// isFile reports whether path is a file, not named memory, a perf map or a jitdump.
func isFile(path string) bool {
	_, isPerfMap := jit.PerfMapPID(path)
	return filepath.IsAbs(path) && !isPerfMap && !strings.HasPrefix(path, "//") && !session.IsJITDump(path)
}

// told adds the build ID of d to an error, so that the user can find the file elsewhere.
func (d *hitDSO) told(err error) error {
	if err == nil || d.ID.IsZero() || failed(err) {
		return err
	}
	return fmt.Errorf("build ID %s: %w", d.ID, err)
}
