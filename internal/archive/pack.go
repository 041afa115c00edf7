package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"gperf/internal/dso"
	"gperf/symbolize/srcline"
)

// Packer finds files and packs them.
type Packer struct {
	Writer  *Writer
	Locator *dso.Locator
	NoDebug bool // omit debug information
	Whole   bool // packs files as they are
	// Apart, if set, receives the files that debuginfod servers can offer by build ID: what is dso.CodeFile or
	// dso.DebugFile. Files that Apart takes are not packed.
	Apart func(id, what string, im *dso.Image) (taken bool, err error)
}

// DSO is a file to pack.
type DSO struct {
	Paths []string    // recorded paths; the file may exist at one of them
	ID    dso.BuildID // zero: the file is missing or contains none
	Hit   []Range     // the functions that samples hit, as offsets in the file
	// NoID are the elements of Paths that were recorded without a build ID.
	NoID []string
}

// part is a file found for a DSO.
type part struct {
	im  *dso.Image
	use uses
}

// parts are the files found for a DSO, each once.
type parts []part

func (l *parts) add(im *dso.Image, use uses) {
	for i := range *l {
		if p := &(*l)[i]; p.im.Path == im.Path {
			p.use |= use
			if p.im != im {
				im.Close()
			}
			return
		}
	}
	*l = append(*l, part{im, use})
}

func (l parts) close() {
	for _, p := range l {
		p.im.Close()
	}
}

// AddDSO packs the files of a DSO. err says why files are missing; debug says why
// there is no debug information, which need not be an error. Errors of writing are
// *WriteError.
func (p *Packer) AddDSO(d DSO) (debug, err error) {
	var files parts
	var supp *dso.Image
	var name string
	for _, name = range d.Paths {
		var e error
		files, supp, debug, e = p.find(name, d.ID)
		if err = cmp.Or(err, e); len(files) > 0 {
			err = e
			break
		}
	}
	defer files.close()
	defer supp.Close()
	if len(files) == 0 {
		return debug, err
	}
	for _, path := range d.NoID { // only the build ID of the file itself
		if e := p.file(places(path, dso.BuildID{})[0], part{im: files[0].im}, nil); e != nil {
			return debug, e
		}
	}
	names := places(name, d.ID)
	if inode, ok := d.ID.Inode(); ok && p.Writer.names[names[0]] { // another file that was recorded at the same path
		names = []string{".debug/.inode/" + inode.String() + "/elf", ".debug/.inode/" + inode.String() + "/debug"}
	}
	for _, f := range files {
		i := 0 // index of the mapped file's name, or the next name
		if f.use&forCode == 0 {
			i = 1
		}
		if i >= len(names) {
			continue
		}
		name := names[i]
		names = append(names[:i:i], names[i+1:]...)
		if e := p.file(name, f, d.Hit); e != nil {
			return debug, e
		}
	}
	for _, f := range files {
		if f.use&forDWARF != 0 {
			err = errors.Join(err, p.split(name, d, files[0].im))
		}
	}
	return debug, errors.Join(err, p.supplement(supp))
}

// split packs the split debug information of the DSO found at file, for the units
// that samples hit: packages (.dwp) and single files (.dwo).
func (p *Packer) split(file string, d DSO, code *dso.Image) error {
	debug, supp, _ := p.Locator.Debug(file, d.ID)
	if debug == nil {
		return nil
	}
	files := srcline.Files{Debug: debug, Supp: supp, DWO: func(compDir, name string) iter.Seq[*dso.Image] {
		return p.Locator.DWO(file, debug, compDir, name)
	}}
	hit := vaddrs(code, d.Hit)
	list, err := srcline.SplitFiles(files, func(lo, hi uint64) bool { return p.Whole || overlaps(hit, lo, hi) })
	for _, f := range list {
		names := []string{f.Name}
		if !path.IsAbs(f.Name) {
			names[0] = path.Join(f.CompDir, f.Name)
		}
		if strings.HasSuffix(f.Path, ".dwp") {
			names = nil
			for _, name := range d.Paths {
				names = append(names, name+".dwp")
			}
		}
		for im := range files.DWO(f.CompDir, f.Name) {
			for _, name := range names {
				if im.Path != f.Path {
					break
				}
				if e := p.file(places(name, dso.BuildID{})[0], part{im, forDWARF}, nil); e != nil {
					im.Close()
					return e
				}
			}
			im.Close()
		}
	}
	return err
}

// vaddrs turns offsets in a file into addresses, which are sorted.
func vaddrs(im *dso.Image, offs []Range) (l []Range) {
	for _, r := range offs {
		if vaddr, ok := im.VaddrOfOff(r.Start); ok {
			l = append(l, Range{vaddr, vaddr + r.End - r.Start})
		}
	}
	return merge(l, math.MaxUint64)
}

// overlaps reports whether one of the ranges, which must be sorted, overlaps with lo to hi-1.
func overlaps(l []Range, lo, hi uint64) bool {
	i, _ := slices.BinarySearchFunc(l, lo, func(r Range, lo uint64) int {
		if r.End <= lo {
			return -1
		}
		return 1
	})
	return i < len(l) && l[i].Start < hi
}

// find finds the files of a DSO in the same way as the symbolizer, so that exactly
// the files it would use are packed.
func (p *Packer) find(path string, id dso.BuildID) (files parts, supp *dso.Image, debug, err error) {
	code, err := p.Locator.Find(path, id)
	if err == nil {
		files.add(code, forCode)
	}
	syms, runtime, symsErr := p.Locator.FindSymbols(path, id)
	if symsErr == nil {
		err = nil
		files.add(syms, forSymbols)
		if runtime == syms {
			files.add(files.packedFor(syms), forLayout)
		} else {
			files.add(runtime, forLayout)
		}
	}
	if p.NoDebug {
		return files, nil, nil, err
	}
	dwarf, supp, debug := p.Locator.Debug(path, id)
	if dwarf != nil {
		files.add(dwarf, forDWARF)
	}
	return files, supp, debug, err
}

// packedFor returns the packed part that replaces im.
func (l parts) packedFor(im *dso.Image) *dso.Image {
	for _, p := range l {
		if p.im.Path == im.Path {
			return p.im
		}
	}
	return im
}

// places returns the names of a DSO's files in an archive, the name of the code first. A Locator looks for these
// names, in this order.
func places(file string, id dso.BuildID) []string {
	name := strings.TrimPrefix(path.Clean("/"+file), "/")
	if file == dso.VDSO {
		name = file
	}
	if id.IsZero() {
		return []string{name, "usr/lib/debug/" + name + ".debug", "usr/lib/debug/" + name}
	}
	hex := id.String()
	entry := ".debug/.build-id/" + hex[:2] + "/" + hex[2:]
	l := []string{entry + "/elf", entry + "/debug", "usr/lib/debug/.build-id/" + hex[:2] + "/" + hex[2:] + ".debug"}
	if file == dso.VDSO {
		l[0] = entry + "/vdso"
	}
	return l
}

func (p *Packer) file(name string, f part, hit []Range) error {
	if taken, err := p.apart(name, f); taken || err != nil {
		return err
	}
	return p.pack(name, f, hit)
}

// pack packs a file, or the parts of it that are used.
func (p *Packer) pack(name string, f part, hit []Range) error {
	if p.Whole {
		f.use = forAll
	}
	if err := p.Writer.Add(name, changed(f.im.Path), contents(f.im, f.use, hit)); err != nil {
		return &WriteError{err}
	}
	return nil
}

// apart passes a file to Apart, if servers can offer the file with this name in an archive.
func (p *Packer) apart(name string, f part) (taken bool, err error) {
	id, what := served(name)
	if p.Apart == nil || id == "" {
		return false, nil
	}
	if taken, err = p.Apart(id, what, f.im); err != nil {
		return false, &WriteError{err}
	}
	return taken, nil
}

// served returns the build ID and the kind under which servers offer the file with this name in an archive, "" for
// none.
func served(name string) (id, what string) {
	_, rest, ok := strings.Cut(name, ".build-id/")
	if !ok {
		return "", ""
	}
	dir, kind := path.Split(strings.Replace(rest, ".debug", "/debug", 1))
	switch id = strings.ReplaceAll(dir, "/", ""); kind {
	case "elf":
		return id, dso.CodeFile
	case "debug":
		return id, dso.DebugFile
	}
	return "", ""
}

// supplement packs the supplementary file of dwz, which several files share.
func (p *Packer) supplement(im *dso.Image) error {
	if im == nil || im.BuildID().IsZero() {
		return nil
	}
	return p.file(places("", im.BuildID())[1], part{im, forDWARF}, nil)
}

// changed is when a file was written last.
func changed(path string) time.Time {
	if st, err := os.Stat(path); err == nil {
		return st.ModTime()
	}
	return time.Time{}
}

// AddKernel packs the symbols of the kernel with build ID id, zero if it was not recorded, and the kernel's vmlinux
// if there is one. hit are the symbols' addresses of the kernel functions that samples hit.
func (p *Packer) AddKernel(id dso.BuildID, hit []Range) (debug, err error) {
	f, err := p.Locator.Kallsyms(id)
	if err == nil {
		err = p.copy(procName("kallsyms", id), f)
	}
	if id.IsZero() {
		return nil, err
	}
	var files parts
	defer func() { files.close() }()
	for im, e := range p.Locator.Kernels(id) {
		if e == nil && im.HasSymtab() {
			files.add(im, forCode|forSymbols)
			break
		}
		im.Close()
	}
	if !p.NoDebug {
		var dwarf *dso.Image
		if dwarf, debug = p.Locator.Vmlinux(id); dwarf != nil {
			files.add(dwarf, forDWARF)
		}
	}
	if len(files) > 0 {
		err = nil
	}
	for i, f := range files {
		name := places("", id)[i]
		if f.use&forDWARF != 0 { // servers are asked for the kernel's debug information, not for code
			taken, e := p.apart(places("", id)[1], f)
			if e != nil {
				return debug, e
			}
			if taken {
				f.use &^= forDWARF
			}
		}
		if f.use == 0 {
			continue
		}
		if e := p.pack(name, f, offsets(f.im, hit)); e != nil {
			return debug, e
		}
	}
	return debug, err
}

// offsets turns addresses into offsets in the file.
func offsets(im *dso.Image, vaddrs []Range) (l []Range) {
	for _, r := range vaddrs {
		if off, ok := im.OffOfVaddr(r.Start); ok {
			l = append(l, Range{off, off + r.End - r.Start})
		}
	}
	return l
}

// procName is the name in an archive of a file of the recorded kernel's /proc.
func procName(base string, id dso.BuildID) string {
	if id.IsZero() {
		return "proc/" + base
	}
	return ".debug/[kernel." + base + "]/" + id.String() + "/" + base
}

// AddFileOf packs a file that process pid wrote, as Locator.OpenOf finds it, whole.
func (p *Packer) AddFileOf(pid int32, name string) error {
	f, err := p.Locator.OpenOf(pid, name)
	if err != nil {
		return err
	}
	name = strings.ReplaceAll(name, "%d", fmt.Sprint(pid))
	return p.copy(strings.TrimPrefix(path.Clean(name), "/"), f)
}

// copy packs the contents of r and closes it.
func (p *Packer) copy(name string, r io.ReadCloser) error {
	defer r.Close()
	if err := p.Writer.Add(name, time.Time{}, r); err != nil {
		return &WriteError{err}
	}
	return nil
}

// WriteError is an error of writing the archive.
type WriteError struct{ Err error }

func (e *WriteError) Error() string { return fmt.Sprint(e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }
