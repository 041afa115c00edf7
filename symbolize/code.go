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

// Code is a range of instructions of a DSO.
type Code struct {
	Machine elf.Machine
	File    string // the file with the instructions
	Addr    uint64 // of the first byte: a vaddr, or the recorded ip for the kernel
	Bytes   []byte

	name func(addr uint64) string
}

// Name returns the symbol and offset at an address of the same DSO, like "main+0x5", or "" if there is none. For a slot
// of the global offset table it returns the function that the slot points to.
func (c *Code) Name(addr uint64) string { return c.name(addr) }

func symbolText(sym *Symbol, off uint64, why Reason) string {
	switch {
	case why != Found:
		return ""
	case off == 0:
		return sym.Name
	}
	return fmt.Sprintf("%s+%#x", sym.Name, off)
}

// maxCode limits a range of code, in bytes.
const maxCode = 1 << 20

// NoCodeError says why a DSO's instructions cannot be read.
type NoCodeError struct {
	DSO string
	ID  dso.BuildID // zero if unknown
	Err error       // wraps the errors of the files tried
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

// codeReader reads the instructions of DSOs.
type codeReader struct {
	opts   Options
	user   *userSymbols
	kernel *kernelSymbols
	proc   string // "/proc"; replaced by tests

	vmlinuxText, runningText func() (*kernelText, error) // open the files with the kernel's code, once
}

func newCodeReader(opts Options, user *userSymbols, kernel *kernelSymbols) *codeReader {
	c := &codeReader{opts: opts, user: user, kernel: kernel, proc: "/proc"}
	c.vmlinuxText, c.runningText = sync.OnceValues(c.openVmlinuxText), sync.OnceValues(c.openRunningText)
	return c
}

// UserCode returns the code from file offset start to end (exclusive) of the DSO recorded at path with build ID id
// (zero if not recorded). It truncates the code at the end of the segment. The error is a *NoCodeError.
func (r *codeReader) UserCode(path string, id dso.BuildID, start, end uint64) (*Code, error) {
	c, err := r.userCode(path, id, start, end)
	if err != nil {
		return nil, &NoCodeError{path, id, err}
	}
	return c, nil
}

func (r *codeReader) userCode(path string, id dso.BuildID, start, end uint64) (*Code, error) {
	im, err := r.opts.Locator.Find(path, id)
	if err != nil {
		return nil, err
	}
	defer im.Close()
	vaddr, ok := im.VaddrOfOff(start)
	if !ok {
		return nil, fmt.Errorf("%s: no segment contains offset %#x", im.Path, start)
	}
	slots := sync.OnceValue(func() map[uint64]string { return r.slots(path, id) })
	return readCode(im, vaddr, vaddr, end-start, func(addr uint64) string {
		if inGOT(im, addr) {
			return slots()[addr]
		}
		off, ok := im.OffOfVaddr(addr)
		if !ok {
			return ""
		}
		return symbolText(r.user.User(path, id, off))
	})
}

// inGOT reports whether addr is in the global offset table.
func inGOT(im *dso.Image, addr uint64) bool {
	for _, name := range [...]string{".got", ".got.plt"} {
		if sec := im.Section(name); sec != nil && addr >= sec.Addr && addr-sec.Addr < sec.Size {
			return true
		}
	}
	return false
}

// slots returns the names of the symbols to which a DSO's relocations point, by vaddr of the slot: symbols of other
// DSOs, and the DSO's own symbols for relative relocations.
func (r *codeReader) slots(path string, id dso.BuildID) map[uint64]string {
	im, err := r.opts.Locator.Find(path, id)
	if err != nil {
		return nil
	}
	defer im.Close()
	names := map[uint64]string{}
	for _, name := range [...]string{".rela.dyn", ".rela.plt"} {
		sec := im.Section(name)
		if sec == nil {
			continue
		}
		symbols := linkedSymbols(im, sec)
		for rel := range eachReloc(im, sec) {
			if !inGOT(im, rel.off) {
				continue
			}
			if n := symbols.name(rel.sym); n != "" {
				names[rel.off] = r.user.displayName(&entry{name: n})
			} else if off, ok := im.OffOfVaddr(uint64(rel.addend)); ok {
				names[rel.off] = symbolText(r.user.User(path, id, off))
			}
		}
	}
	return names
}

// readCode reads n bytes at vaddr. Addr of the result is addr.
func readCode(im *dso.Image, vaddr, addr, n uint64, name func(uint64) string) (*Code, error) {
	if n > maxCode {
		return nil, errTooLong
	}
	for _, l := range im.Loads {
		if vaddr < l.Vaddr || vaddr-l.Vaddr >= l.Filesz {
			continue
		}
		b, err := im.Bytes(l.Off+vaddr-l.Vaddr, min(n, l.Filesz-(vaddr-l.Vaddr)))
		if err != nil {
			return nil, err
		}
		return &Code{im.Machine, im.Path, addr, b, name}, nil
	}
	return nil, fmt.Errorf("%s: no segment contains vaddr %#x", im.Path, vaddr)
}

// RunningCode is KernelCode, but reads only the kernel's memory. An archive keeps this code, because no file may have
// it after the next boot.
func (r *codeReader) RunningCode(start, end uint64) (*Code, error) {
	c, err := r.kernelCode(r.runningText, start, end)
	if err != nil {
		return nil, &NoCodeError{dso.KernelName, r.opts.KernelBuildID, err}
	}
	return c, nil
}

// kernelText is an open file with the recorded kernel's code.
type kernelText struct {
	image *dso.Image
	delta uint64 // vaddr - recorded ip
}

// KernelCode returns the kernel's code from recorded ip start to end (exclusive). It reads the kernel's ELF file, or
// otherwise the running kernel's memory, if that is the recorded kernel, or an archive's copy of that memory. The error
// is a *NoCodeError.
func (r *codeReader) KernelCode(start, end uint64) (*Code, error) {
	var why []error
	for _, text := range []func() (*kernelText, error){r.vmlinuxText, r.runningText} {
		c, err := r.kernelCode(text, start, end)
		if err == nil {
			return c, nil
		}
		why = append(why, err)
	}
	return nil, &NoCodeError{dso.KernelName, r.opts.KernelBuildID, fmt.Errorf("%w; %w", why[0], why[1])}
}

func (r *codeReader) kernelCode(text func() (*kernelText, error), start, end uint64) (*Code, error) {
	k, err := text()
	if err != nil {
		return nil, err
	}
	if from, to := r.kernel.KernelRange(); k.delta != 0 && (start < from || start >= to) {
		return nil, fmt.Errorf("%s: %w", k.image.Path, errModuleMoved)
	}
	return readCode(k.image, start+k.delta, start, end-start, r.kernelName)
}

func (r *codeReader) kernelName(ip uint64) string {
	sym, off, _, why := r.kernel.Kernel(ip)
	return symbolText(sym, off, why)
}

var (
	errNoVmlinux   = errors.New("no vmlinux found")
	errModuleMoved = errors.New("modules were at other addresses during the recording")
	errElsewhere   = errors.New("the files are of another machine, whose memory cannot be read")
)

func (r *codeReader) openVmlinuxText() (*kernelText, error) {
	why := errNoVmlinux
	for im, err := range r.opts.Locator.Kernels(r.opts.KernelBuildID) {
		if err == nil && !im.HasCode() {
			err = fmt.Errorf("%s has only debug information", im.Path)
		}
		if err == nil {
			var delta uint64
			if delta, err = r.textDelta(im); err == nil {
				return &kernelText{im, delta}, nil
			}
		}
		im.Close()
		why = err
	}
	return nil, why
}

// textDelta is vmlinuxDelta, but also handles a kernel without symbols, extracted from a vmlinuz: its .text starts at
// _stext and, except on arm64, which has a .head.text, at _text.
func (r *codeReader) textDelta(im *dso.Image) (uint64, error) {
	delta, err := r.kernel.vmlinuxDelta(im)
	text := im.Section(".text")
	if ref := r.opts.KernelRef; errors.Is(err, dso.ErrNoSymbols) && text != nil &&
		(ref == "_stext" || ref == "_text" && im.Section(".head.text") == nil) {
		return text.Addr - r.opts.KernelRefAddr, nil
	}
	return delta, err
}

// openRunningText opens the running kernel's memory, or the recording's or archive's copy of the recorded kernel's.
func (r *codeReader) openRunningText() (*kernelText, error) {
	if r.opts.Proc != "" {
		return r.openText(r.opts.Proc)
	}
	path := filepath.Join(r.proc, "kcore")
	if r.opts.Locator.Root != "" {
		im, err := r.opts.Locator.Kcore(r.opts.KernelBuildID)
		if errors.Is(err, dso.ErrNoFile) {
			return nil, fmt.Errorf("%s: %w", path, errElsewhere)
		}
		return &kernelText{im, 0}, err
	}
	running, _ := dso.KernelBuildID()
	if want := r.opts.KernelBuildID; !want.IsZero() && !want.Matches(running) {
		return nil, fmt.Errorf("%s: %w", path, errOtherKernel)
	}
	return r.openText(r.proc)
}

// openText opens a kernel's memory in a directory like /proc.
func (r *codeReader) openText(proc string) (*kernelText, error) {
	im, err := dso.Open(filepath.Join(proc, "kcore")) // few kernels have it
	if err != nil {
		return nil, err
	}
	delta, err := r.recordedDelta(filepath.Join(proc, "kallsyms"))
	if err != nil {
		im.Close()
		return nil, err
	}
	return &kernelText{im, delta}, nil
}

// recordedDelta returns the current ip - recorded ip of the kernel whose symbols are in the file kallsyms.
func (r *codeReader) recordedDelta(kallsyms string) (uint64, error) {
	if r.opts.KernelRef == "" {
		return 0, nil
	}
	f, err := os.Open(kallsyms)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	k, err := parseKallsyms(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", kallsyms, err)
	}
	addr, ok := k.Addr(r.opts.KernelRef)
	if !ok {
		return 0, fmt.Errorf("%s: no %s: %w", kallsyms, r.opts.KernelRef, errOtherKernel)
	}
	return addr - r.opts.KernelRefAddr, nil
}
