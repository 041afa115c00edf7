package symbolize

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"gperf/internal/dso"
)

// Code is the instructions of a piece of a DSO.
type Code struct {
	Machine elf.Machine
	File    string // the file of the instructions
	Addr    uint64 // of the first byte: the vaddr, of the kernel the ip as recorded
	Bytes   []byte

	name func(addr uint64) string
}

// Name returns the symbol at an address of the same DSO with the offset into it,
// "" if there is none. For a slot of the global offset table it is that which
// the slot leads to.
func (c *Code) Name(addr uint64) string { return c.name(addr) }

func named(sym *Symbol, off uint64, why Reason) string {
	switch {
	case why != Found:
		return ""
	case off == 0:
		return sym.Name
	}
	return fmt.Sprintf("%s+%#x", sym.Name, off)
}

// maxCode limits the size of one function, in bytes.
const maxCode = 1 << 20

// NoCodeError says why a DSO's instructions cannot be read.
type NoCodeError struct {
	DSO string
	ID  dso.BuildID // zero if unknown
	Err error       // the errors of the places tried
}

func (e *NoCodeError) Error() string {
	msg := "no code of " + e.DSO
	if !e.ID.IsZero() {
		msg += " (build id " + e.ID.String() + ")"
	}
	return fmt.Sprintf("%s: %v", msg, e.Err)
}

func (e *NoCodeError) Unwrap() error { return e.Err }

var errTooLong = fmt.Errorf("longer than %d MiB", maxCode>>20)

// UserCode returns the code at the offsets start to end-1 of the DSO recorded at
// path with build ID id (zero if not recorded), cut where its segment ends. The
// error is a *NoCodeError.
func (s *Symbolizer) UserCode(path string, id dso.BuildID, start, end uint64) (*Code, error) {
	c, err := s.userCode(path, id, start, end)
	if err != nil {
		return nil, &NoCodeError{path, id, err}
	}
	return c, nil
}

func (s *Symbolizer) userCode(path string, id dso.BuildID, start, end uint64) (*Code, error) {
	im, err := s.opts.Locator.Find(path, id)
	if err != nil {
		return nil, err
	}
	defer im.Close()
	vaddr, ok := im.VaddrOfOff(start)
	if !ok {
		return nil, fmt.Errorf("%s: no segment contains offset %#x", im.Path, start)
	}
	slots := sync.OnceValue(func() map[uint64]string { return s.slots(path, id) })
	return readCode(im, vaddr, vaddr, end-start, func(addr uint64) string {
		if inGOT(im, addr) {
			return slots()[addr]
		}
		off, ok := im.OffOfVaddr(addr)
		if !ok {
			return ""
		}
		return named(s.User(path, id, off))
	})
}

// inGOT reports whether an address is that of a slot through which code calls others.
func inGOT(im *dso.Image, addr uint64) bool {
	for _, name := range [...]string{".got", ".got.plt"} {
		if sec := im.Section(name); sec != nil && addr >= sec.Addr && addr-sec.Addr < sec.Size {
			return true
		}
	}
	return false
}

// slots returns the names of the symbols that a DSO's relocations resolve to, by
// address of the slot: symbols of other DSOs, and own ones for relative
// relocations.
func (s *Symbolizer) slots(path string, id dso.BuildID) map[uint64]string {
	im, err := s.opts.Locator.Find(path, id)
	if err != nil {
		return nil
	}
	defer im.Close()
	names := map[uint64]string{}
	for _, name := range [...]string{".rela.dyn", ".rela.plt"} {
		sec := im.Section(name)
		if sec == nil || uint64(sec.Link) >= uint64(len(im.Sections())) {
			continue
		}
		symbols, _ := readSymbols(im, im.Sections()[sec.Link]) // a damaged table costs its names
		for _, r := range readRelocs(im, sec) {
			if !inGOT(im, r.off) {
				continue
			}
			if n := symbolNames(symbols).name(r.sym); n != "" {
				names[r.off] = s.show(&entry{name: n})
			} else if off, ok := im.OffOfVaddr(uint64(r.addend)); ok {
				names[r.off] = named(s.User(path, id, off))
			}
		}
	}
	return names
}

// readCode reads n bytes at vaddr; the result's addresses begin at addr.
func readCode(im *dso.Image, vaddr, addr, n uint64, name func(uint64) string) (*Code, error) {
	if n > maxCode {
		return nil, errTooLong
	}
	for _, l := range im.Loads() {
		if vaddr < l.Vaddr || vaddr-l.Vaddr >= l.Filesz {
			continue
		}
		b, err := im.Bytes(l.Off+vaddr-l.Vaddr, min(n, l.Filesz-(vaddr-l.Vaddr)))
		if err != nil {
			return nil, err
		}
		return &Code{im.Machine, im.Path, addr, b, name}, nil
	}
	return nil, fmt.Errorf("%s has no bytes at %#x", im.Path, vaddr)
}

// RunningCode is KernelCode without a file of the kernel's own: what no file may
// have when the kernel runs no more.
func (s *Symbolizer) RunningCode(start, end uint64) (*Code, error) {
	c, err := s.kernelCode(s.runningText, start, end)
	if err != nil {
		return nil, &NoCodeError{dso.KernelName, s.opts.KernelBuildID, err}
	}
	return c, nil
}

// kernelText is a file with the recorded kernel's code.
type kernelText struct {
	image *dso.Image
	delta uint64 // vaddr - recorded ip
}

// KernelCode returns the code of the kernel at the recorded ips start to end-1:
// from the kernel's ELF file, or else from the running kernel's memory if that is
// the recorded kernel, or from an archive's copy of it. The error is a
// *NoCodeError.
func (s *Symbolizer) KernelCode(start, end uint64) (*Code, error) {
	var why []error
	for _, text := range []func() (*kernelText, error){s.vmlinuxText, s.runningText} {
		c, err := s.kernelCode(text, start, end)
		if err == nil {
			return c, nil
		}
		why = append(why, err)
	}
	return nil, &NoCodeError{dso.KernelName, s.opts.KernelBuildID, fmt.Errorf("%w; %w", why[0], why[1])}
}

func (s *Symbolizer) kernelCode(text func() (*kernelText, error), start, end uint64) (*Code, error) {
	k, err := text()
	if err != nil {
		return nil, err
	}
	if from, to := s.KernelRange(); k.delta != 0 && (start < from || start >= to) {
		return nil, fmt.Errorf("%s: %w", k.image.Path, errModuleMoved)
	}
	return readCode(k.image, start+k.delta, start, end-start, s.kernelName)
}

func (s *Symbolizer) kernelName(ip uint64) string {
	sym, off, _, why := s.Kernel(ip)
	return named(sym, off, why)
}

var (
	errNoVmlinux   = errors.New("no vmlinux was found")
	errModuleMoved = errors.New("modules were at other addresses during the recording")
	errElsewhere   = errors.New("the files are of another machine, whose memory cannot be read")
)

func (s *Symbolizer) loadVmlinuxText() (*kernelText, error) {
	why := errNoVmlinux
	for im, err := range s.opts.Locator.Kernels(s.opts.KernelBuildID) {
		if err == nil && !im.HasCode() {
			err = fmt.Errorf("%s has only debug information", im.Path)
		}
		if err == nil {
			var delta uint64
			if delta, err = s.textDelta(im); err == nil {
				return &kernelText{im, delta}, nil
			}
		}
		im.Close()
		why = err
	}
	return nil, why
}

// textDelta is kernelDelta, but also handles a kernel without symbols, unpacked
// from a vmlinuz: its text begins at _stext and, except on arm64 with its
// .head.text, at _text.
func (s *Symbolizer) textDelta(im *dso.Image) (uint64, error) {
	delta, err := s.kernelDelta(im)
	text := im.Section(".text")
	if ref := s.opts.KernelRef; errors.Is(err, dso.ErrNoSymbols) && text != nil &&
		(ref == "_stext" || ref == "_text" && im.Section(".head.text") == nil) {
		return text.Addr - s.opts.KernelRefAddr, nil
	}
	return delta, err
}

// loadRunningText opens the image of the running kernel's memory, or what the recording or
// an archive has of the recorded one's.
func (s *Symbolizer) loadRunningText() (*kernelText, error) {
	if s.opts.Proc != "" {
		return s.openText(s.opts.Proc)
	}
	path := filepath.Join(s.proc, "kcore")
	if s.opts.Locator.Root != "" {
		im, err := s.opts.Locator.Kcore(s.opts.KernelBuildID)
		if errors.Is(err, dso.ErrNoFile) {
			return nil, fmt.Errorf("%s: %w", path, errElsewhere)
		}
		return &kernelText{im, 0}, err
	}
	running, _ := dso.KernelBuildID()
	if want := s.opts.KernelBuildID; !want.IsZero() && !want.Matches(running) {
		return nil, fmt.Errorf("%s: %w", path, errOtherKernel)
	}
	return s.openText(s.proc)
}

// openText opens the image of a kernel's memory in a folder like /proc.
func (s *Symbolizer) openText(proc string) (*kernelText, error) {
	im, err := dso.Open(filepath.Join(proc, "kcore")) // which few kernels have
	if err != nil {
		return nil, err
	}
	delta, err := s.movedSince(filepath.Join(proc, "kallsyms"))
	if err != nil {
		im.Close()
		return nil, err
	}
	return &kernelText{im, delta}, nil
}

// movedSince returns how far the kernel of a list of symbols lies from where the
// recorded one lay.
func (s *Symbolizer) movedSince(kallsyms string) (uint64, error) {
	if s.opts.KernelRef == "" {
		return 0, nil
	}
	f, err := os.Open(kallsyms)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	k, err := ParseKallsyms(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", kallsyms, err)
	}
	addr, ok := k.Addr(s.opts.KernelRef)
	if !ok {
		return 0, fmt.Errorf("%s: no %s: %w", kallsyms, s.opts.KernelRef, errOtherKernel)
	}
	return addr - s.opts.KernelRefAddr, nil
}
